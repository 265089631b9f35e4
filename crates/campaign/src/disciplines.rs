// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disciplines of an experiment's arms. They are checked before a machine boots, and the user's
//! own disciplines are built for the guest.

use std::collections::BTreeMap;
use std::path::Path;
use weirgate_aqm::{Discipline, Settings};
use weirgate_console::discipline::{self as own, Built};
use weirgate_console::exit::Failure;
use weirgate_experiment::{Experiment, Kit};

/// Where the lab puts programs in the guest.
const IN_THE_GUEST: &str = "/usr/sbin";

/// The user's own disciplines that an experiment's arms name.
#[derive(Default)]
pub struct Kits {
    /// The built disciplines by their text in the experiment.
    own: BTreeMap<String, Built>,
}

impl Kits {
    /// Finds and builds the disciplines, and checks the settings of every arm. Reports all mistakes
    /// at once. Paths are relative to the experiment's file.
    pub fn of(file: &Path, experiment: &Experiment) -> Result<Self, Failure> {
        let mut kits = Self::default();
        let mut mistakes = Vec::new();
        for arm in &experiment.arms {
            let Some(kit) = &arm.kit else {
                continue;
            };
            for what in kits.add(file, kit) {
                let file = file.display();
                mistakes.push(format!("weirgate: {file}: arm `{}`: {what}", arm.name));
            }
        }
        if mistakes.is_empty() {
            Ok(kits)
        } else {
            Err(Failure::Input(mistakes.join("\n")))
        }
    }

    /// Adds the discipline of an arm, and returns its mistakes.
    fn add(&mut self, file: &Path, kit: &Kit) -> Vec<String> {
        let discipline = match Discipline::named(&kit.discipline) {
            Some(discipline) => discipline,
            None => match self.find(file, &kit.discipline) {
                Ok(discipline) => discipline,
                Err(failure) => return vec![failure.text()],
            },
        };
        let mut mistakes = Vec::new();
        let mut settings = Settings::new(discipline);
        for word in &kit.set {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if let Err(error) = settings.set_text(name.trim(), value.trim()) {
                mistakes.push(error.to_string());
            }
        }
        mistakes
    }

    fn find(&mut self, file: &Path, word: &str) -> Result<Discipline, Failure> {
        if let Some(built) = self.own.get(word) {
            return own::open(&built.path);
        }
        let folder = file.parent().unwrap_or_else(|| Path::new("."));
        let beside = own::file(&folder.join(word).to_string_lossy())?;
        let lab = || Discipline::lab_names().contains(&word).then_some(word);
        let built = match (beside, lab()) {
            (None, Some(name)) => own::file(name)?,
            (beside, _) => beside,
        };
        let Some(built) = built else {
            let all: Vec<&str> = Discipline::all()
                .into_iter()
                .map(Discipline::name)
                .collect();
            return Err(Failure::Input(format!(
                "there is no discipline `{word}`: the kit has {}, the laboratory {}, and one of \
                 your own is named by its folder, beside this file",
                all.join(", "),
                Discipline::lab_names().join(", ")
            )));
        };
        let discipline = own::open(&built.path)?;
        let name = built.path.file_name();
        if let Some((other, _)) = self.own.iter().find(|it| it.1.path.file_name() == name) {
            return Err(Failure::Input(format!(
                "`{word}` and `{other}` have the same name"
            )));
        }
        self.own.insert(word.to_owned(), built);
        Ok(discipline)
    }

    /// Returns the files for the guest's image.
    pub fn programs(&self) -> impl Iterator<Item = String> {
        let files = self.own.values();
        files.map(|built| built.path.to_string_lossy().into_owned())
    }

    /// Returns each discipline's path in the guest, or on this machine if there is no guest.
    pub fn places(&self, here: bool) -> BTreeMap<String, String> {
        let place = |(word, built): (&String, &Built)| {
            let path = if here {
                built.path.clone()
            } else {
                Path::new(IN_THE_GUEST).join(built.path.file_name().unwrap_or_default())
            };
            (word.clone(), path.to_string_lossy().into_owned())
        };
        self.own.iter().map(place).collect()
    }
}
