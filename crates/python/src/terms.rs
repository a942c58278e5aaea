//! The arguments that say how a value is stored: `ttl`, `tags`, `stale`, `keep_ttl` and
//! `pinned`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use tuckbox_engine::{Attributes, Condition, Terms, Ttl, TAGS_MAX, TAG_BYTES_MAX};

use crate::errors::classes::{InvalidArgument, InvalidTag};
use crate::{names, text, ttl};

/// How a value is stored, as given.
pub struct OwnedTerms {
    ttl: Ttl,
    keeps_ttl: bool,
    tags: Vec<String>,
    stale: Option<Ttl>,
    made_us: Option<u64>,
    is_pinned: bool,
}

impl OwnedTerms {
    /// Converts the arguments; `None` is an argument that was not given.
    ///
    /// # Errors
    /// `InvalidTTL`, `InvalidTag`, `InvalidArgument`.
    pub fn new(
        ttl: Ttl,
        tags: Option<&Bound<'_, PyAny>>,
        stale: Option<&Bound<'_, PyAny>>,
        keep_ttl: Option<&Bound<'_, PyAny>>,
        pinned: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<OwnedTerms> {
        let tags = tags.map(tags_of).transpose()?.unwrap_or_default();
        let stale = stale.filter(|stale| !stale.is_none());
        let stale = stale.map(|stale| ttl::parse(Some(stale))).transpose()?;
        let (keeps_ttl, is_pinned) = (flag_of("keep_ttl", keep_ttl)?, flag_of("pinned", pinned)?);
        Ok(OwnedTerms { ttl, keeps_ttl, tags, stale, made_us: None, is_pinned })
    }

    /// The same, for a value whose making took so many seconds.
    pub fn made_in(self, seconds: Option<f64>) -> OwnedTerms {
        let made_us = seconds.map(|seconds| (seconds * 1e6) as u64);
        OwnedTerms { made_us, ..self }
    }

    /// Calls a function with the engine's form of the arguments.
    pub fn with<R>(&self, condition: Condition<'_>, run: impl FnOnce(&Terms<'_>) -> R) -> R {
        let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
        let OwnedTerms { stale, made_us, is_pinned, .. } = *self;
        let attributes = Attributes { tags: &tags, stale, made_us, is_pinned, stamp: None };
        run(&Terms { ttl: self.ttl, keeps_ttl: self.keeps_ttl, attributes, condition })
    }
}

/// Converts an argument that is true or false; not given is false.
fn flag_of(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(given) = given else { return Ok(false) };
    given.cast::<PyBool>().map(|given| given.is_true()).map_err(|_| {
        let kind = names::of_type(given);
        InvalidArgument::new_err(format!("{name} must be True or False, not {kind}"))
    })
}

/// Converts the `tags` argument: sorted, each once.
///
/// # Errors
/// `InvalidTag`.
pub fn tags_of(tags: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let refused = |advice: &str| {
        let kind = names::of_type(tags);
        Err(InvalidTag::new_err(format!("tags must be an iterable of str, not {kind}{advice}")))
    };
    if tags.is_instance_of::<PyString>() || tags.is_instance_of::<PyBytes>() {
        return refused("; put a single tag in a list");
    }
    let Ok(iterator) = tags.try_iter() else { return refused("") };
    let mut found = Vec::new();
    for tag in iterator.take(TAGS_MAX + 1) {
        if found.len() == TAGS_MAX {
            let message = format!("an entry can have {TAGS_MAX} tags; give fewer");
            return Err(InvalidTag::new_err(message));
        }
        found.push(tag_of(&tag?)?);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Converts a tag.
///
/// # Errors
/// `InvalidTag` if it is no str, empty or too long.
pub fn tag_of(tag: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(string) = tag.cast::<PyString>() else {
        let kind = names::of_type(tag);
        return Err(InvalidTag::new_err(format!("a tag must be a str, not {kind}")));
    };
    let shown = || names::of_object(tag);
    let Some(name) = text::utf8(string) else {
        let message = format!("tag {} has a lone surrogate; use other characters", shown());
        return Err(InvalidTag::new_err(message));
    };
    if name.is_empty() || name.len() > TAG_BYTES_MAX {
        let len_bytes = name.len();
        return Err(InvalidTag::new_err(format!(
            "tag {} is {len_bytes} bytes long; use 1 to {TAG_BYTES_MAX}",
            shown()
        )));
    }
    Ok(name.to_owned())
}
