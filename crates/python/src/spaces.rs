//! Namespaces: keys that begin with a name and its era.
//!
//! | part of a key | bytes |
//! |---|---|
//! | each namespace, outermost first | `FF 6E`, the length of its name (LEB128), its name, its era in 8 bytes |
//! | the key | as without namespaces: see [`crate::keys`] |
//!
//! The engine tells the era by the names alone. To clear a namespace gives it another era, so nobody
//! asks for its former keys any more.

use std::hash::{DefaultHasher, Hasher};

use tuckbox_engine::{Buffer, Error, Handle, Walk};

use crate::varint;

/// First bytes of a key in a namespace.
const MARK: [u8; 2] = [0xFF, b'n'];
const ERA_BYTES: usize = 8;

/// A namespace, or one in another.
#[derive(Clone, Default)]
pub struct Space {
    /// For each level, outermost first: what its keys begin with, up to its era.
    heads: Vec<Vec<u8>>,
    /// For each level: the names that the engine tells the era by.
    names: Vec<Vec<u8>>,
    /// Of the innermost name, for this process.
    hash: u64,
}

impl Space {
    /// A namespace in this one.
    pub fn within(&self, name: &str) -> Space {
        let mut head = MARK.to_vec();
        varint::append(&mut head, name.len() as u64);
        head.extend_from_slice(name.as_bytes());
        let mut inner = self.clone();
        let mut names = self.names.last().cloned().unwrap_or_default();
        names.extend_from_slice(&head);
        let mut hasher = DefaultHasher::new();
        hasher.write(&names);
        inner.hash = hasher.finish();
        inner.heads.push(head);
        inner.names.push(names);
        inner
    }

    /// A hash of the name, for this process.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// For each level, what the engine tells its era by.
    pub fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// What the engine tells the era of this namespace by.
    pub fn name(&self) -> &[u8] {
        self.names.last().map_or(&[], Vec::as_slice)
    }

    /// What all keys begin with now.
    ///
    /// # Errors
    /// As [`Handle::era`].
    pub fn prefix(&self, cache: &Handle, more_bytes: usize) -> tuckbox_engine::Result<Vec<u8>> {
        self.prefix_with(self.names.iter().map(|name| cache.era(name)), more_bytes)
    }

    /// What all keys begin with in these eras, outermost first.
    ///
    /// # Errors
    /// Those of the eras.
    pub fn prefix_with(
        &self,
        eras: impl Iterator<Item = tuckbox_engine::Result<u64>>,
        more_bytes: usize,
    ) -> tuckbox_engine::Result<Vec<u8>> {
        let own_bytes: usize = self.heads.iter().map(|head| head.len() + ERA_BYTES).sum();
        let mut bytes = Vec::with_capacity(own_bytes + more_bytes);
        for (head, era) in self.heads.iter().zip(eras) {
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(&era?.to_le_bytes());
        }
        Ok(bytes)
    }
}

/// The key without what the keys of a namespace begin with. `None` if it belongs to another one.
/// Without namespace the prefix is empty.
pub fn own_part<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    key.strip_prefix(prefix).filter(|rest| !rest.starts_with(&MARK))
}

/// Deletes the entries of former eras; how many.
///
/// # Errors
/// As [`Handle::scan_next`] and [`Handle::delete`].
pub fn expire(cache: &Handle) -> tuckbox_engine::Result<u64> {
    let (mut walk, mut buffer, mut count) = (Walk::default(), Buffer::new(), 0);
    loop {
        let key = match cache.scan_next(&mut walk, &mut buffer) {
            Ok(Some(item)) => match is_of_former_era(cache, item.key)? {
                true => item.key.to_vec(),
                false => continue,
            },
            // A file that took the place of this one has no entries of former eras yet.
            Ok(None) | Err(Error::ScanLost { .. }) => return Ok(count),
            Err(error) => return Err(error),
        };
        count += u64::from(cache.delete(&key)?);
    }
}

/// Whether a key has an era that is not its namespace's.
///
/// # Errors
/// As [`Handle::era`].
pub fn is_of_former_era(cache: &Handle, key: &[u8]) -> tuckbox_engine::Result<bool> {
    let (mut rest, mut names) = (key, Vec::new());
    while let Some((head, era, after)) = split(rest) {
        names.extend_from_slice(head);
        if cache.era(&names)?.to_le_bytes() != era {
            return Ok(true);
        }
        rest = after;
    }
    Ok(false)
}

/// The head, the era and the rest of a key in a namespace.
fn split(key: &[u8]) -> Option<(&[u8], [u8; ERA_BYTES], &[u8])> {
    let mut rest = key.strip_prefix(&MARK)?;
    let len = usize::try_from(varint::take(&mut rest)?).ok()?;
    let head_len = (key.len() - rest.len()).checked_add(len)?;
    let (head, rest) = key.split_at_checked(head_len)?;
    let (era, rest) = rest.split_first_chunk()?;
    Some((head, *era, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_split_where_it_was_joined_and_damaged_ones_are_not() {
        let space = Space::default().within("blog").within("");
        let era = 7u64.to_le_bytes();
        let key = [&space.heads[0][..], &era, &space.heads[1], &era, b"key"].concat();
        let (head, found, rest) = split(&key).unwrap();
        assert_eq!((head, found), (&space.heads[0][..], era));
        let (head, found, rest) = split(rest).unwrap();
        assert_eq!((head, found, rest), (&space.heads[1][..], era, &b"key"[..]));
        assert_eq!(space.name(), [&space.heads[0][..], &space.heads[1]].concat());
        assert!(
            split(rest).is_none() && split(b"\xffn\xff").is_none() && split(b"\xffn").is_none()
        );
        for len in 0..key.len() {
            let _ = split(&key[..len]);
        }
        assert_eq!(own_part(&key, b""), None);
        assert_eq!(own_part(b"key", b""), Some(&b"key"[..]));
        assert_eq!(own_part(&key, &key[..key.len() - 3]), Some(&b"key"[..]));
    }
}
