//! Encoding of dates, times and time zones.
//!
//! ```text
//! date       year (2), month, day
//! time       hour, minute, second, microsecond (3), fold, zone
//! datetime   date, time
//! timedelta  days (4, signed), seconds (4), microseconds (4)
//! zone       0: none
//!            1: offset as a timedelta           datetime.timezone without a name
//!            2: the same, then length, name     datetime.timezone with a name
//!            3: length, key                     zoneinfo.ZoneInfo
//! ```
//!
//! Numbers are little-endian. The reader looks up the key of a zone in the time zone data of its
//! own machine.

use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyString, PyTime, PyTimeAccess,
    PyTuple, PyTzInfo, PyTzInfoAccess,
};

use super::decode::{corrupt, Decoder};
use super::imported;
use crate::{names, varint};

const ZONE_NONE: u8 = 0;
const ZONE_OFFSET: u8 = 1;
const ZONE_NAMED_OFFSET: u8 = 2;
const ZONE_KEY: u8 = 3;

/// Why a date or time cannot be encoded.
pub enum Refusal {
    /// The time zone has this type.
    TimeZone(String),
    /// Python raised an exception.
    Raised(PyErr),
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Refusal {
        Refusal::Raised(error)
    }
}

pub fn append_date(date: &impl PyDateAccess, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(date.get_year() as u16).to_le_bytes());
    bytes.extend_from_slice(&[date.get_month(), date.get_day()]);
}

pub fn append_datetime(moment: &Bound<'_, PyDateTime>, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    append_date(moment, bytes);
    append_clock(moment, bytes);
    append_zone(moment.get_tzinfo(), bytes)
}

pub fn append_time(time: &Bound<'_, PyTime>, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    append_clock(time, bytes);
    append_zone(time.get_tzinfo(), bytes)
}

fn append_clock(time: &impl PyTimeAccess, bytes: &mut Vec<u8>) {
    let [low, middle, high, _] = time.get_microsecond().to_le_bytes();
    let fold = u8::from(time.get_fold());
    bytes.extend_from_slice(&[
        time.get_hour(),
        time.get_minute(),
        time.get_second(),
        low,
        middle,
        high,
        fold,
    ]);
}

pub fn append_delta(delta: &Bound<'_, PyDelta>, bytes: &mut Vec<u8>) {
    for number in [delta.get_days(), delta.get_seconds(), delta.get_microseconds()] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

fn append_zone(zone: Option<Bound<'_, PyTzInfo>>, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    let Some(zone) = zone else {
        bytes.push(ZONE_NONE);
        return Ok(());
    };
    let py = zone.py();
    if zone.is_exact_instance(imported::timezone(py)?) {
        // As pickle does: the offset, and the name if one was given.
        let arguments = zone.call_method0(intern!(py, "__getinitargs__"))?;
        let arguments = arguments.cast::<PyTuple>().map_err(PyErr::from)?;
        let offset = arguments.get_item(0)?;
        let named = arguments.len() > 1;
        bytes.push(if named { ZONE_NAMED_OFFSET } else { ZONE_OFFSET });
        append_delta(offset.cast::<PyDelta>().map_err(PyErr::from)?, bytes);
        if named {
            append_text(&arguments.get_item(1)?, bytes)?;
        }
        return Ok(());
    }
    if zone.is_exact_instance(imported::zone_info(py)?) {
        let key = zone.getattr(intern!(py, "key"))?;
        if !key.is_none() {
            bytes.push(ZONE_KEY);
            return append_text(&key, bytes);
        }
    }
    Err(Refusal::TimeZone(names::of_type(&zone)))
}

fn append_text(text: &Bound<'_, PyAny>, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    let text = text.cast::<PyString>().map_err(PyErr::from)?;
    let content = text.to_str()?;
    varint::append(bytes, content.len() as u64);
    bytes.extend_from_slice(content.as_bytes());
    Ok(())
}

fn date_parts(decoder: &Decoder<'_>) -> PyResult<(i32, u8, u8)> {
    let [low, high, month, day] = decoder.array()?;
    Ok((i32::from(u16::from_le_bytes([low, high])), month, day))
}

struct Clock {
    hour: u8,
    minute: u8,
    second: u8,
    microsecond: u32,
    fold: bool,
}

fn clock(decoder: &Decoder<'_>) -> PyResult<Clock> {
    let [hour, minute, second, low, middle, high, fold] = decoder.array()?;
    let microsecond = u32::from_le_bytes([low, middle, high, 0]);
    if fold > 1 {
        return Err(corrupt("the fold of a time is neither 0 nor 1"));
    }
    Ok(Clock { hour, minute, second, microsecond, fold: fold == 1 })
}

pub fn take_date<'py>(py: Python<'py>, decoder: &Decoder<'_>) -> PyResult<Bound<'py, PyAny>> {
    let (year, month, day) = date_parts(decoder)?;
    Ok(PyDate::new(py, year, month, day)?.into_any())
}

pub fn take_datetime<'py>(py: Python<'py>, decoder: &Decoder<'_>) -> PyResult<Bound<'py, PyAny>> {
    let (year, month, day) = date_parts(decoder)?;
    let Clock { hour, minute, second, microsecond, fold } = clock(decoder)?;
    let zone = take_zone(py, decoder)?;
    let moment = PyDateTime::new_with_fold(
        py,
        year,
        month,
        day,
        hour,
        minute,
        second,
        microsecond,
        zone.as_ref(),
        fold,
    )?;
    Ok(moment.into_any())
}

pub fn take_time<'py>(py: Python<'py>, decoder: &Decoder<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Clock { hour, minute, second, microsecond, fold } = clock(decoder)?;
    let zone = take_zone(py, decoder)?;
    let time = PyTime::new_with_fold(py, hour, minute, second, microsecond, zone.as_ref(), fold)?;
    Ok(time.into_any())
}

pub fn take_delta<'py>(py: Python<'py>, decoder: &Decoder<'_>) -> PyResult<Bound<'py, PyDelta>> {
    let days = i32::from_le_bytes(decoder.array()?);
    let seconds = i32::from_le_bytes(decoder.array()?);
    let microseconds = i32::from_le_bytes(decoder.array()?);
    if !(0..86_400).contains(&seconds) || !(0..1_000_000).contains(&microseconds) {
        return Err(corrupt("the seconds or microseconds of a timedelta are out of range"));
    }
    PyDelta::new(py, days, seconds, microseconds, true)
}

fn take_zone<'py>(
    py: Python<'py>,
    decoder: &Decoder<'_>,
) -> PyResult<Option<Bound<'py, PyTzInfo>>> {
    match decoder.byte()? {
        ZONE_NONE => Ok(None),
        ZONE_OFFSET => PyTzInfo::fixed_offset(py, take_delta(py, decoder)?).map(Some),
        ZONE_NAMED_OFFSET => {
            let offset = take_delta(py, decoder)?;
            let name = decoder.text(py)?;
            let zone = imported::timezone(py)?.call1((offset, name))?;
            Ok(Some(zone.cast_into().map_err(PyErr::from)?))
        }
        ZONE_KEY => {
            let key = decoder.text(py)?;
            match imported::zone_info(py)?.call1((&key,)) {
                Ok(zone) => Ok(Some(zone.cast_into().map_err(PyErr::from)?)),
                Err(error) if is_unknown_zone(py, &error) => Err(corrupt(
                    "this machine does not know its time zone; try to install the tzdata package",
                )),
                Err(error) => Err(error),
            }
        }
        _ => Err(corrupt("this version does not know the type of a time zone")),
    }
}

/// Whether `ZoneInfo` raised this for a key that it cannot find, is invalid, or is a directory.
fn is_unknown_zone(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOSError>(py)
}
