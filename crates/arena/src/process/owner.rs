//! How lock and owner words name a process. Must not know whether it lives.

use std::num::NonZeroU32;

/// A process slot and its incarnation, as lock and owner words name it. Never zero, so that an
/// [`Option`] of it fits a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(NonZeroU32);

const SLOT_BITS: u32 = 12;
const INCARNATION_BITS: u32 = 19;

impl OwnerId {
    pub(super) fn new(slot: u32, incarnation: u32) -> OwnerId {
        let incarnation = incarnation & ((1 << INCARNATION_BITS) - 1);
        let bits = NonZeroU32::new(incarnation << SLOT_BITS | (slot + 1));
        OwnerId(bits.expect("slot + 1 is at least one"))
    }

    /// From the 31 bits of a word in the file; none if they name no owner.
    pub fn from_bits(bits: u32) -> Option<OwnerId> {
        let bits = bits & !(1 << 31);
        let owner = NonZeroU32::new(bits).map(OwnerId)?;
        (bits & ((1 << SLOT_BITS) - 1) != 0).then_some(owner)
    }

    /// The 31 bits for a word in the file.
    pub fn bits(self) -> u32 {
        self.0.get()
    }

    /// The process slot.
    pub fn slot(self) -> u32 {
        (self.0.get() & ((1 << SLOT_BITS) - 1)) - 1
    }

    pub(super) fn incarnation(self) -> u32 {
        self.0.get() >> SLOT_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_survives_its_bits() {
        for (slot, incarnation) in [(0, 0), (1023, 5), (7, (1 << 19) - 1)] {
            let owner = OwnerId::new(slot, incarnation);
            assert_eq!(OwnerId::from_bits(owner.bits() | 1 << 31), Some(owner));
            assert_eq!(owner.slot(), slot);
        }
        assert_eq!(OwnerId::from_bits(0), None);
    }
}
