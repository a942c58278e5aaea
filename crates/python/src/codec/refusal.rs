//! Why a value was refused: the cause, and where in the value.

use pyo3::prelude::*;

use super::{moments, DEPTH_MAX};
use crate::errors::classes::{ValueTooLarge, ValueTypeError};
use crate::{advice, names};

/// Why a value cannot be encoded.
#[derive(Debug)]
pub enum Cause {
    /// The object, whose type cannot be stored.
    Type(Py<PyAny>),
    /// The type of a time zone.
    TimeZone(String),
    /// The type of a container that contains itself.
    Cycle(String),
    /// Too many containers around it.
    TooDeep,
    /// It is longer than this.
    TooLarge {
        /// The limit of the cache.
        bytes_max: usize,
    },
    /// Another thread changed a container.
    Changed,
    /// Python raised an exception.
    Raised(PyErr),
}

/// A cause, and where in the value it was found, from the innermost container outwards.
#[derive(Debug)]
pub struct Refusal {
    cause: Cause,
    place: Vec<String>,
}

impl Refusal {
    #[cold]
    /// A refusal of the item itself.
    pub fn of(cause: Cause) -> Box<Refusal> {
        Box::new(Refusal { cause, place: Vec::new() })
    }

    /// Whether a value is refused because of what it is, so that pickling may store it.
    pub fn is_of_a_type(&self) -> bool {
        matches!(self.cause, Cause::Type(_) | Cause::TimeZone(_) | Cause::Cycle(_) | Cause::TooDeep)
    }

    /// A refusal of a date or time.
    pub fn of_moment(refusal: moments::Refusal) -> Box<Refusal> {
        Refusal::of(match refusal {
            moments::Refusal::TimeZone(name) => Cause::TimeZone(name),
            moments::Refusal::Raised(error) => Cause::Raised(error),
        })
    }

    /// Adds that the item has this index in its container.
    pub fn at_index(mut self: Box<Refusal>, index: usize) -> Box<Refusal> {
        self.place.push(format!("[{index}]"));
        self
    }

    /// Adds that the item is the value of this key.
    pub fn at_key(mut self: Box<Refusal>, key: &Bound<'_, PyAny>) -> Box<Refusal> {
        self.place.push(format!("[{}]", names::of_object(key)));
        self
    }

    /// Adds that the item is this key or member.
    pub fn at(mut self: Box<Refusal>, what: &str, object: &Bound<'_, PyAny>) -> Box<Refusal> {
        self.place.push(format!("{what}{}", names::of_object(object)));
        self
    }

    /// The exception for the value of a key.
    #[cold]
    pub fn raised(self, py: Python<'_>, key: Option<&Bound<'_, PyAny>>) -> PyErr {
        let entry = key.map_or_else(String::new, |key| format!("key {}: ", names::of_object(key)));
        let mut place = String::from("value");
        place.extend(self.place.iter().rev().map(String::as_str));
        let place = entry.clone() + &shortened(&place);
        match self.cause {
            Cause::Type(object) => match advice::on_value(object.bind(py)) {
                Ok(what) => ValueTypeError::new_err(format!("{place} is of type {what}")),
                Err(error) => error,
            },
            Cause::TimeZone(name) => ValueTypeError::new_err(format!(
                "{place} has a time zone of type {name}, which cannot be stored; use a \
                 datetime.timezone, or a zoneinfo.ZoneInfo with a key"
            )),
            Cause::Cycle(name) => ValueTypeError::new_err(format!(
                "{place} is a {name} that contains itself, which cannot be stored; remove the cycle"
            )),
            Cause::TooDeep => ValueTypeError::new_err(format!(
                "{place} is nested more than {DEPTH_MAX} containers deep; flatten the value"
            )),
            Cause::TooLarge { bytes_max } => ValueTooLarge::new_err(format!(
                "{entry}value is too long: the limit of this cache is {bytes_max} bytes; resize \
                 the cache, or store less"
            )),
            Cause::Changed => pyo3::exceptions::PyRuntimeError::new_err(format!(
                "{place} was changed by another thread while it was being stored; nothing was \
                 stored: store a copy, or hold a lock of your own"
            )),
            // What a registered type refuses.
            Cause::Raised(error) if error.is_instance_of::<ValueTypeError>(py) => {
                let named = ValueTypeError::new_err(format!("{place}: {}", error.value(py)));
                named.set_cause(py, error.cause(py));
                named
            }
            Cause::Raised(error) => error,
        }
    }
}

impl From<PyErr> for Box<Refusal> {
    fn from(error: PyErr) -> Box<Refusal> {
        Refusal::of(Cause::Raised(error))
    }
}

fn shortened(place: &str) -> String {
    const LENGTH_MAX: usize = 200;
    if place.len() <= LENGTH_MAX {
        return place.to_owned();
    }
    place.chars().take(LENGTH_MAX).chain("...".chars()).collect()
}
