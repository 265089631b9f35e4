// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the wire settings and parameters of a discipline to and from a state.

use weirgate_aqm::{Discipline, Link, Row, Settings, SettingsError};
use weirgate_state::{CakeAckFilter, CakeFraming, KitSetting, KitWire};

/// Framings by their numbers (`enum aqm_framing`, aqm/include/aqm.h).
const FRAMINGS: [CakeFraming; 3] = [CakeFraming::None, CakeFraming::Atm, CakeFraming::Ptm];

/// ACK filters by their numbers (`enum acks_filter`, aqm/host/acks.h).
const ACK_FILTERS: [CakeAckFilter; 3] = [
    CakeAckFilter::No,
    CakeAckFilter::Filter,
    CakeAckFilter::Aggressive,
];

/// Returns the number of an ACK filter.
pub(crate) fn acks_number(filter: CakeAckFilter) -> u16 {
    let at = ACK_FILTERS.iter().position(|one| *one == filter);
    at.unwrap_or(0) as u16
}

/// Returns the ACK filter of a number.
pub(crate) fn acks_of(number: u16) -> CakeAckFilter {
    let known = ACK_FILTERS.get(usize::from(number)).copied();
    known.unwrap_or_default()
}

/// Converts the overhead and framing of a state.
pub(crate) fn link_of(wire: KitWire) -> Link {
    let framing = FRAMINGS.iter().position(|one| *one == wire.framing);
    Link {
        overhead_bytes: wire.overhead,
        mpu_bytes: wire.mpu,
        framing: framing.unwrap_or(0) as u32,
        ..Link::default()
    }
}

/// Converts a link to a state's wire settings; `None` if the framing is unknown.
pub(crate) fn wire_of(link: &Link) -> Option<KitWire> {
    Some(KitWire {
        overhead: link.overhead_bytes,
        mpu: link.mpu_bytes,
        framing: *FRAMINGS.get(link.framing as usize)?,
    })
}

/// Converts the parameters that a state sets; the others have their defaults.
///
/// # Errors
///
/// Returns an error if a parameter is unknown or a value is out of range.
pub(crate) fn settings(
    discipline: Discipline,
    stated: &[KitSetting],
) -> Result<Settings, SettingsError> {
    let settings = Settings::new(discipline);
    let with = |settings: Settings, one: &KitSetting| settings.with(&one.name, one.value);
    stated.iter().try_fold(settings, with)
}

/// Returns all parameters in force, including defaults.
pub(crate) fn settings_of(settings: &Settings) -> Vec<KitSetting> {
    let setting = |(row, value): (Row, u64)| KitSetting {
        name: row.name.to_owned(),
        value,
        usual: value == row.default,
    };
    settings.rows().into_iter().map(setting).collect()
}
