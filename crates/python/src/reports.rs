//! The results of `stats` and `check` as dicts. `tuckbox/results.py` has the classes.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tuckbox_engine::{CheckReport, Stats};

/// Returns the statistics as a dict.
/// `local` is the number of objects that this process keeps, and their bytes.
pub fn stats<'py>(
    py: Python<'py>,
    stats: &Stats,
    local: (u64, u64),
) -> PyResult<Bound<'py, PyDict>> {
    let numbers = [
        ("entries", stats.entries),
        ("entry_bytes", stats.entry_bytes),
        ("file_bytes", stats.file_bytes),
        ("size_bytes", stats.size_bytes),
        ("max_entries", stats.max_entries),
        ("largest_value_bytes", stats.value_bytes_max),
        ("processes", stats.processes),
        ("processes_max", stats.processes_max),
        ("hits", stats.hits),
        ("misses", stats.misses),
        ("sets", stats.sets),
        ("deletes", stats.deletes),
        ("evictions", stats.evictions),
        ("expirations", stats.expirations),
        ("lost_entries", stats.lost_entries),
        ("discards", stats.discards),
        ("reopened", stats.reopened),
        ("takeovers", stats.takeovers),
        ("reads_under_lock", stats.reads_under_lock),
        ("reads_given_up", stats.reads_given_up),
        ("checksum_mismatches", stats.checksum_mismatches),
        ("shards", stats.shards),
        ("segment_bytes", stats.segment_bytes),
        ("segments", stats.segments),
        ("segments_free", stats.segments_free),
        ("segments_log", stats.segments_log),
        ("segments_index", stats.segments_index),
        ("segments_body", stats.segments_body),
        ("segments_spare", stats.segments_spare),
        ("segments_building", stats.segments_building),
        ("local_entries", local.0),
        ("local_bytes", local.1),
    ];
    let dict = PyDict::new(py);
    for (name, number) in numbers {
        dict.set_item(name, number)?;
    }
    Ok(dict)
}

/// Returns the report as a dict.
pub fn check<'py>(py: Python<'py>, report: &CheckReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("entries", report.entries)?;
    dict.set_item("entry_bytes", report.entry_bytes)?;
    dict.set_item("lost_entries", report.lost_entries)?;
    let losses: Vec<_> =
        report.losses.iter().map(|loss| (loss.shard, loss.entries, loss.reason)).collect();
    dict.set_item("losses", losses)?;
    dict.set_item("damaged_entries", report.damaged_entries)?;
    dict.set_item("leaked_segments", report.leaked_segments)?;
    dict.set_item("wrong_counts", report.wrong_counts)?;
    dict.set_item("segments_free", report.segments_free)?;
    dict.set_item("segments_log", report.segments_log)?;
    dict.set_item("segments_index", report.segments_index)?;
    dict.set_item("segments_body", report.segments_body)?;
    dict.set_item("segments_spare", report.segments_spare)?;
    dict.set_item("segments_building", report.segments_building)?;
    dict.set_item("findings", &report.findings)?;
    Ok(dict)
}
