//! A host must not outlive its runner, even if the adapter hangs and the runner was killed.
//!
//! Owns that one request to the kernel. Must not know what the host does.

use std::os::unix::process::parent_id;

use crate::contract::Result;

/// Makes the kernel kill this process when its parent, process `parent`, ends.
///
/// Linux only; elsewhere the host ends when it next reads or writes.
pub(crate) fn die_with_parent(parent: u32) -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| format!("could not request a death signal: {error}"))?;
    if parent_id() != parent {
        // The parent ended before the request, or it was never the parent.
        return Err(format!("the parent of this process is {}, not {parent}", parent_id()).into());
    }
    Ok(())
}
