//! The operations of actors, and the lies that must be caught.

/// The operations, for the heartbeat and the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs)]
pub enum Kind {
    Get,
    Set,
    SetTtl,
    Delete,
    Add,
    Replace,
    Touch,
    Pop,
    CompareAndSet,
    Incr,
    CountByCompare,
    ReadCounter,
    ContestedGet,
    ContestedSet,
    ContestedDelete,
    ContestedPop,
    SetLarge,
    GetLarge,
    Contains,
    Expire,
    Scan,
    Resolve,
    SetTagged,
    Evict,
    Make,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub fn all() -> &'static [Kind] {
        <Kind as clap::ValueEnum>::value_variants()
    }

    /// The name for a number in a heartbeat.
    pub fn name(number: u64) -> String {
        let kind = Kind::all().get((number >> 32) as usize);
        kind.map_or_else(|| "unknown".into(), |kind| format!("{kind:?} #{}", number as u32))
    }
}

/// The lies of the negative controls. A cache that answers like this must be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Lie {
    /// Every read misses.
    Miss,
    /// Now and then a read answers what it answered the last time, or an older value.
    Stale,
    /// Now and then a read answers another key's value.
    OtherKey,
    /// Now and then an integer is one less than it is.
    LostCount,
}
