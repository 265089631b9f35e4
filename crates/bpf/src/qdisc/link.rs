// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire settings and parameters of a discipline, converted between a state and the kit.

use weirgate_aqm::{Discipline, Link, Row, Settings, SettingsError};
use weirgate_state::{CakeFraming, KitSetting, KitWire};

/// Framings by their numbers (`enum aqm_framing`, aqm/include/aqm.h).
const FRAMINGS: [CakeFraming; 3] = [CakeFraming::None, CakeFraming::Atm, CakeFraming::Ptm];

/// What packets cost on a wire.
pub(crate) fn link_of(wire: KitWire) -> Link {
    let framing = FRAMINGS.iter().position(|one| *one == wire.framing);
    Link {
        overhead_bytes: wire.overhead,
        mpu_bytes: wire.mpu,
        framing: framing.unwrap_or(0) as u32,
        ..Link::default()
    }
}

/// The wire of a link; `None` where the framing has no such number.
pub(crate) fn wire_of(link: &Link) -> Option<KitWire> {
    Some(KitWire {
        overhead: link.overhead_bytes,
        mpu: link.mpu_bytes,
        framing: *FRAMINGS.get(link.framing as usize)?,
    })
}

/// A discipline's parameters of which a state states some.
///
/// # Errors
///
/// Occurs where it has no such parameter, or none of this value.
pub(crate) fn settings(
    discipline: Discipline,
    stated: &[KitSetting],
) -> Result<Settings, SettingsError> {
    let settings = Settings::new(discipline);
    let with = |settings: Settings, one: &KitSetting| settings.with(&one.name, one.value);
    stated.iter().try_fold(settings, with)
}

/// All parameters in force, those with their defaults among them.
pub(crate) fn settings_of(settings: &Settings) -> Vec<KitSetting> {
    let setting = |(row, value): (Row, u64)| KitSetting {
        name: row.name.to_owned(),
        value,
        usual: value == row.default,
    };
    settings.rows().into_iter().map(setting).collect()
}
