// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Presets: sets of parameters under one name, such as `preset=sjf`.
//!
//! A preset acts like its settings written in its place. Later settings override it, and it
//! overrides earlier ones only for its own parameters.

use crate::discipline::Discipline;
use crate::settings::{Settings, SettingsError};

/// The word by which a preset is set.
pub const PRESET: &str = "preset";

/// Named settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The discipline.
    pub discipline: &'static str,
    /// Its name.
    pub name: &'static str,
    /// A description of the effect in one line.
    pub help: &'static str,
    /// Parameters and values, in the form of [`Settings::set_text`].
    pub set: &'static [(&'static str, &'static str)],
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        discipline: "mered",
        name: "one-threshold",
        help: "flows are spared and served first up to one size (Braithwaite 2006, 4.1.4)",
        set: &[("queue_bytes", "20000"), ("drop_bytes", "20000")],
    },
    Preset {
        discipline: "mered",
        name: "red-with-mice",
        help: "short flows are spared, no flow is served first",
        set: &[("queue_bytes", "0"), ("drop_bytes", "20000")],
    },
    Preset {
        discipline: "meredt",
        name: "mered",
        help: "nearly as mered: two bands, no drops below 20000 bytes, all flows above alike, \
               but no drop is owed for a mouse that was spared",
        set: &[
            ("bands", "2"),
            ("queue_bytes", "20000"),
            ("knot1_bytes", "20000"),
            ("knot2_bytes", "20001"),
            ("knot3_bytes", "20001"),
            ("weight1", "0"),
            ("weight2", "1"),
            ("weight3", "1"),
            ("fairness", "0"),
            ("averaged", "all"),
            ("spare_ns", "0"),
            ("measure", "packets"),
        ],
    },
    // The first band ends at two full packets, and each further one at twice as much: 3, 6 ...
    // 192 kB. The last band thus begins where the default weight is about a fifth of its
    // maximum.
    Preset {
        discipline: "meredt",
        name: "sjf",
        help: "nearly shortest job first: eight bands from 3000 bytes on",
        set: &[("bands", "8"), ("queue_bytes", "3000"), ("fairness", "0")],
    },
    // The size of a flow decreases at its share of the link. A flow that sends no more than that
    // stays in the first band. Two full packets are its burst.
    Preset {
        discipline: "meredt",
        name: "fair",
        help: "fair queueing: flows that send at most their share of the link go first",
        set: &[
            ("bands", "2"),
            ("queue_bytes", "3000"),
            ("knot1_bytes", "3000"),
            ("knot2_bytes", "20000"),
            ("knot3_bytes", "100000"),
            ("weight1", "0"),
            ("weight2", "0.5"),
            ("weight3", "1"),
            ("fairness", "1"),
        ],
    },
    // The size of a flow decreases at a quarter of its share. A slower flow always stays a
    // mouse, and an elephant becomes a mouse again after a pause.
    Preset {
        discipline: "meredt",
        name: "hybrid",
        help: "mice and elephants whose sizes leak by a quarter of a share of the link",
        set: &[
            ("bands", "4"),
            ("queue_bytes", "10000"),
            ("fairness", "0.25"),
        ],
    },
];

impl Discipline {
    /// Returns the presets of the discipline.
    pub fn presets(self) -> impl Iterator<Item = &'static Preset> {
        let own = move |preset: &&Preset| preset.discipline == self.name();
        PRESETS.iter().filter(own)
    }
}

impl Settings {
    /// Applies the settings of a preset.
    pub fn set_preset(&mut self, name: &str) -> Result<(), SettingsError> {
        let found = self.discipline().presets().find(|one| one.name == name);
        let Some(preset) = found else {
            let known: Vec<&str> = self.discipline().presets().map(|one| one.name).collect();
            return Err(SettingsError::Text {
                name: PRESET,
                text: name.to_owned(),
                expected: match known.as_slice() {
                    [] => format!("parameters: {} has no presets", self.discipline().name()),
                    known => known.join(", "),
                },
            });
        };
        for (name, value) in preset.set {
            self.set_text(name, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_set_and_differs_from_the_others() {
        let mut all = Vec::new();
        for preset in PRESETS {
            let discipline = Discipline::named(preset.discipline).expect("a discipline");
            let mut settings = Settings::new(discipline);
            settings.set_text(PRESET, preset.name).expect(preset.name);
            assert!(!all.contains(&settings), "{}", preset.name);
            all.push(settings);
        }
    }

    #[test]
    fn what_follows_a_preset_holds() {
        let meredt = Discipline::named("meredt").expect("a discipline");
        let mut settings = Settings::new(meredt);
        settings.set_text("preset", "sjf").expect("a preset");
        settings.set_text("bands", "4").expect("a parameter");
        let bands = settings
            .rows()
            .into_iter()
            .find(|(row, _)| row.name == "bands");
        assert_eq!(bands.map(|found| found.1), Some(4));
        let error = settings.set_text("preset", "sfj").expect_err("no preset");
        assert_eq!(
            error.to_string(),
            "preset is `sfj`; write mered, sjf, fair, hybrid"
        );
        let codel = Discipline::named("codel").expect("a discipline");
        let error = Settings::new(codel)
            .set_text("preset", "sjf")
            .expect_err("none");
        assert!(
            error.to_string().contains("codel has no presets"),
            "{error}"
        );
    }
}
