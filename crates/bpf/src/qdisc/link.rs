// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts the wire settings and parameters of a discipline to and from a state.

use weirgate_aqm::{Discipline, Link, Row, Settings, SettingsError};
use weirgate_state::{CakeFraming, KitSetting, KitWire};

/// Framings by their numbers (`enum aqm_framing`, aqm/include/aqm.h).
const FRAMINGS: [CakeFraming; 3] = [CakeFraming::None, CakeFraming::Atm, CakeFraming::Ptm];

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
