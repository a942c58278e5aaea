//! The `ttl` argument: None, a number of seconds, a duration as text, or a timedelta.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyFloat, PyInt, PyString};
use tuckbox_engine::Ttl;

use crate::errors::classes::InvalidTTL;
use crate::errors::Quick;
use crate::{names, numbers};

/// A ttl of at least this (about 146,000 years) never expires.
const US_MAX: u64 = 1 << 62;
/// The units of a duration as text, in seconds, longest first.
const UNITS: [(char, f64); 5] =
    [('w', 604_800.0), ('d', 86_400.0), ('h', 3_600.0), ('m', 60.0), ('s', 1.0)];

/// Converts a `ttl` argument to microseconds.
///
/// None and infinity never expire. 0 and less expire at once. Less than a microsecond counts as one.
///
/// # Errors
/// `InvalidTTL` for NaN, bool, text that is not a duration, and every other type.
#[inline(always)]
pub fn parse(ttl: Option<&Bound<'_, PyAny>>) -> Quick<Ttl> {
    match ttl {
        None => Ok(Ttl::Never),
        Some(ttl) => Ok(parse_given(ttl)?),
    }
}

fn parse_given(ttl: &Bound<'_, PyAny>) -> PyResult<Ttl> {
    if ttl.is_instance_of::<PyBool>() {
        return Err(refuse_type(ttl));
    }
    if ttl.is_instance_of::<PyInt>() {
        return Ok(match ttl.extract::<i64>() {
            Ok(seconds) => from_us(i128::from(seconds) * 1_000_000),
            Err(_) if ttl.lt(0)? => Ttl::Us(0),
            Err(_) => Ttl::Never,
        });
    }
    if let Ok(seconds) = ttl.cast::<PyFloat>() {
        return from_seconds(seconds.value()).ok_or_else(|| refuse(ttl, "is not a number"));
    }
    if let Ok(delta) = ttl.cast::<PyDelta>() {
        let seconds = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
        return Ok(from_us(seconds * 1_000_000 + i128::from(delta.get_microseconds())));
    }
    if let Ok(text) = ttl.cast::<PyString>() {
        let seconds = text.to_str().ok().and_then(seconds_in);
        return seconds.and_then(from_seconds).ok_or_else(|| refuse(ttl, "is not a duration"));
    }
    match numbers::plain(ttl)? {
        Some(number) => parse_given(&number),
        None => Err(refuse_type(ttl)),
    }
}

fn from_us(us: i128) -> Ttl {
    match u64::try_from(us.max(0)) {
        Ok(us) if us < US_MAX => Ttl::Us(us),
        _ => Ttl::Never,
    }
}

/// `None` for NaN.
fn from_seconds(seconds: f64) -> Option<Ttl> {
    let us = seconds * 1e6;
    if us.is_nan() {
        None
    } else if us >= US_MAX as f64 {
        Some(Ttl::Never)
    } else if us > 0.0 {
        Some(Ttl::Us(us.round().max(1.0) as u64))
    } else {
        Some(Ttl::Us(0))
    }
}

/// The seconds in a duration such as "5m" or "1h 30m": each unit at most once, longer ones first.
fn seconds_in(text: &str) -> Option<f64> {
    let mut units = UNITS.iter();
    let mut seconds = 0.0;
    let mut rest = text.trim();
    loop {
        let number_end = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let number: f64 = rest[..number_end].parse().ok()?;
        rest = rest[number_end..].trim_start();
        let (unit, unit_seconds) = units.find(|(unit, _)| rest.starts_with(*unit))?;
        seconds += number * unit_seconds;
        rest = rest[unit.len_utf8()..].trim_start();
        if rest.is_empty() {
            return Some(seconds);
        }
    }
}

#[cold]
fn refuse(ttl: &Bound<'_, PyAny>, why: &str) -> PyErr {
    InvalidTTL::new_err(format!(
        "ttl {} {why}; give seconds as a number, a duration in s, m, h, d or w such as \"90s\" or \
         \"1h30m\", or a timedelta; None never expires",
        names::of_object(ttl)
    ))
}

#[cold]
fn refuse_type(ttl: &Bound<'_, PyAny>) -> PyErr {
    InvalidTTL::new_err(format!(
        "ttl must be None, seconds as int or float, a duration such as \"5m\", or a timedelta, not {}",
        names::of_type(ttl)
    ))
}
