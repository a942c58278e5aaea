//! The `ttl` argument: None, a number of seconds, or a timedelta.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyFloat, PyInt};
use tuckbox_engine::Ttl;

use crate::errors::classes::InvalidTTL;
use crate::errors::Quick;

/// A ttl of at least this (about 146,000 years) never expires.
const US_MAX: u64 = 1 << 62;

/// Converts a `ttl` argument to microseconds.
///
/// None and infinity never expire. 0 expires at once. Less than a microsecond counts as one.
///
/// # Errors
/// `InvalidTTL` for negative numbers, NaN, bool and every other type.
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
        return match ttl.extract::<i64>() {
            Ok(seconds) => whole(ttl, i128::from(seconds) * 1_000_000),
            Err(_) if ttl.lt(0)? => Err(refuse(ttl, "must not be negative")),
            Err(_) => Ok(Ttl::Never),
        };
    }
    if let Ok(seconds) = ttl.cast::<PyFloat>() {
        let us = seconds.value() * 1e6;
        return if us.is_nan() {
            Err(refuse(ttl, "must be a number"))
        } else if us < 0.0 {
            Err(refuse(ttl, "must not be negative"))
        } else if us >= US_MAX as f64 {
            Ok(Ttl::Never)
        } else if us > 0.0 {
            Ok(Ttl::Us(us.round().max(1.0) as u64))
        } else {
            Ok(Ttl::Us(0))
        };
    }
    if let Ok(delta) = ttl.cast::<PyDelta>() {
        let seconds = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
        return whole(ttl, seconds * 1_000_000 + i128::from(delta.get_microseconds()));
    }
    Err(refuse_type(ttl))
}

fn whole(ttl: &Bound<'_, PyAny>, us: i128) -> PyResult<Ttl> {
    match u64::try_from(us) {
        Ok(us) if us < US_MAX => Ok(Ttl::Us(us)),
        _ if us < 0 => Err(refuse(ttl, "must not be negative")),
        _ => Ok(Ttl::Never),
    }
}

#[cold]
fn refuse(ttl: &Bound<'_, PyAny>, why: &str) -> PyErr {
    let shown = ttl.repr().map_or_else(|_| "it".into(), |repr| repr.to_string());
    InvalidTTL::new_err(format!(
        "ttl {why}, got {shown}; give seconds or a timedelta, None for no expiry, 0 to expire now"
    ))
}

#[cold]
fn refuse_type(ttl: &Bound<'_, PyAny>) -> PyErr {
    InvalidTTL::new_err(format!(
        "ttl must be None, seconds as int or float, or a timedelta, not {}",
        crate::names::of_type(ttl)
    ))
}
