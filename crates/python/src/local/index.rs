//! From hashes to positions in the table: open addressing with linear probing, at most two thirds
//! full. Must not know what is at a position, apart from its hash.

/// A position plus one, and above it the highest bits of its hash; 0 if empty. Four bytes, so that the
/// cells of many keys fit the processor's cache.
type Cell = u32;

const POSITION_BITS: u32 = 24;
const POSITION_MASK: usize = (1 << POSITION_BITS) - 1;
/// Positions are below this.
pub const POSITIONS_MAX: usize = POSITION_MASK;

/// The highest bits of a hash, where a cell has them.
#[inline(always)]
fn top_of(hash: u64) -> Cell {
    ((hash >> (u64::BITS - (Cell::BITS - POSITION_BITS))) as Cell) << POSITION_BITS
}

fn cell(hash: u64, position: usize) -> Cell {
    top_of(hash) | (position + 1) as Cell
}

/// The position in a cell that is not empty.
#[inline(always)]
fn position_in(cell: Cell) -> usize {
    (cell as usize & POSITION_MASK) - 1
}

/// The index. The number of cells is a power of two.
pub struct Index {
    cells: Vec<Cell>,
    count: usize,
}

impl Index {
    /// Bytes for each position, on average.
    pub const BYTES: usize = 2 * size_of::<Cell>();

    /// An empty index.
    pub fn new() -> Index {
        Index { cells: vec![0; 64], count: 0 }
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.cells.len() - 1
    }

    /// The position with this hash for which `is_it` is true.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let (top, mut at) = (top_of(hash), hash as usize);
        loop {
            let cell = self.cells[at & self.mask()];
            if cell == 0 {
                return None;
            }
            if cell & !(POSITION_MASK as Cell) == top && is_it(position_in(cell)) {
                return Some(position_in(cell));
            }
            at += 1;
        }
    }

    /// Adds the position that is the next one. `hashes` are those of the others.
    pub fn add(&mut self, hash: u64, hashes: &[u64]) {
        debug_assert_eq!(self.count, hashes.len());
        if (self.count + 1) * 3 > self.cells.len() * 2 {
            self.cells = vec![0; self.cells.len() * 2];
            for (position, hash) in hashes.iter().enumerate() {
                self.place(*hash, position);
            }
        }
        self.place(hash, self.count);
        self.count += 1;
    }

    fn place(&mut self, hash: u64, position: usize) {
        let mut at = hash as usize & self.mask();
        while self.cells[at] != 0 {
            at = (at + 1) & self.mask();
        }
        self.cells[at] = cell(hash, position);
    }

    /// The cell of a position.
    fn cell_of(&self, hash: u64, position: usize) -> usize {
        let mut at = hash as usize & self.mask();
        while self.cells[at] != cell(hash, position) {
            at = (at + 1) & self.mask();
        }
        at
    }

    /// Removes a position, which the last one gets then. `hashes` are those of all, the last one's
    /// included.
    pub fn remove(&mut self, position: usize, hashes: &[u64]) {
        let mut empty = self.cell_of(hashes[position], position);
        // Moves up the cells that this one has displaced, so that each is found from its home without
        // passing an empty one.
        let mut at = (empty + 1) & self.mask();
        while self.cells[at] != 0 {
            let home = hashes[position_in(self.cells[at])] as usize;
            let distance = |from: usize| at.wrapping_sub(from) & self.mask();
            if distance(home) >= distance(empty) {
                self.cells[empty] = self.cells[at];
                empty = at;
            }
            at = (at + 1) & self.mask();
        }
        self.cells[empty] = 0;
        self.count -= 1;
        if position != self.count {
            let last = self.cell_of(hashes[self.count], self.count);
            self.cells[last] = cell(hashes[self.count], position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_until_they_are_removed() {
        let (mut index, mut hashes) = (Index::new(), Vec::new());
        let mut state = 7u64;
        for step in 0..20_000usize {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = state >> 33;
            if hashes.is_empty() || random % 1000 < if step < 10_000 { 600 } else { 400 } {
                // Few homes, so that many positions share one; few tops, so that some are equal.
                let hash = (random % 61 * 64) | ((random % 5) << 56);
                index.add(hash, &hashes);
                hashes.push(hash);
            } else {
                let position = random as usize % hashes.len();
                index.remove(position, &hashes);
                hashes.swap_remove(position);
            }
            if step % 500 == 0 {
                for (position, hash) in hashes.iter().enumerate() {
                    let found = index.find(*hash, |found| found == position);
                    assert_eq!(found, Some(position));
                    // Nothing else is there.
                    assert_eq!(index.find(*hash, |found| found >= hashes.len()), None);
                }
            }
        }
    }
}
