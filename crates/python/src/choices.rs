//! Arguments that are one of a few names. `tuckbox/choices.py` has their types.

use pyo3::prelude::*;
use tuckbox_engine::{AfterPowerCut, Favour};

use crate::errors::classes::{InvalidAfterPowerCut, InvalidFavour};
use crate::names;

/// The values of the `favour` argument, the default first.
const FAVOURS: [(&str, Favour); 3] =
    [("balanced", Favour::Balanced), ("hits", Favour::Hits), ("bytes", Favour::Bytes)];

/// The values of the `after_power_cut` argument, the default first.
const AFTER_POWER_CUTS: [(&str, AfterPowerCut); 2] =
    [("keep", AfterPowerCut::Keep), ("discard", AfterPowerCut::Discard)];

fn choice_of<T: Copy>(choices: &[(&str, T)], given: &Bound<'_, PyAny>) -> Result<T, String> {
    let name = given.extract::<std::borrow::Cow<'_, str>>().ok();
    let known = choices.iter().find(|(known, _)| name.as_deref() == Some(known));
    known.map(|(_, choice)| *choice).ok_or_else(|| {
        let all: Vec<_> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
        format!("must be one of {}, not {}", all.join(", "), names::of_object(given))
    })
}

fn name_of<T: PartialEq>(choices: &[(&'static str, T)], choice: &T) -> &'static str {
    choices.iter().find(|(_, known)| known == choice).map_or(choices[0].0, |(name, _)| name)
}

/// The choice that a `favour` argument names.
pub fn favour_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Favour> {
    given.map_or(Ok(Favour::default()), |given| {
        choice_of(&FAVOURS, given)
            .map_err(|message| InvalidFavour::new_err(format!("favour {message}")))
    })
}

/// The name of a choice.
pub fn name_of_favour(favour: Favour) -> &'static str {
    name_of(&FAVOURS, &favour)
}

/// The choice that an `after_power_cut` argument names.
pub fn after_power_cut_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<AfterPowerCut> {
    given.map_or(Ok(AfterPowerCut::default()), |given| {
        choice_of(&AFTER_POWER_CUTS, given)
            .map_err(|message| InvalidAfterPowerCut::new_err(format!("after_power_cut {message}")))
    })
}

/// The name of a choice.
pub fn name_of_after_power_cut(after_power_cut: AfterPowerCut) -> &'static str {
    name_of(&AFTER_POWER_CUTS, &after_power_cut)
}
