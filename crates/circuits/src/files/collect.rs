// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads all files of a list, in an order in which each finds what it needs.

use crate::files::json::Json;
use crate::files::located::{File, Mistakes};
use crate::files::overrides::Overrides;
use crate::files::raw::Collected;
use crate::files::{csv, json, network, overrides};

/// Collects what these files say, by their numbers in `files`.
pub(crate) fn collected<'t>(
    files: &[File<'t>],
    of: &[usize],
    mistakes: &Mistakes<'_>,
) -> Collected<'t> {
    let (mut collected, mut overrides) = (Collected::default(), Overrides::default());
    let all = || {
        of.iter()
            .filter_map(|number| Some((*number, files.get(*number)?)))
    };
    // What lines of devices are to be is known before they are read.
    let mut networks = Vec::new();
    for (number, file) in all() {
        if !json::is_json(file.text) {
            continue;
        }
        let mistakes = mistakes.of(number);
        match json::object(file.text, &mistakes) {
            Some(object) if overrides::is_overrides(&object) => {
                let json = Json::new(file.text, &mistakes);
                overrides::read(&json, &object, &mut overrides);
            }
            object => {
                networks.push((number, object));
                collected.has_network = true;
            }
        }
    }
    for (number, object) in networks {
        let mistakes = mistakes.of(number);
        if let Some((object, file)) = object.zip(files.get(number)) {
            let json = Json::new(file.text, &mistakes);
            network::sites(&json, &object, None, 1, &mut collected.sites);
        }
    }
    for (number, file) in all() {
        if !json::is_json(file.text) {
            csv::read(
                file.text,
                &mistakes.of(number),
                &mut overrides,
                &mut collected,
            );
        }
    }
    overrides::finish(overrides, mistakes, &mut collected);
    collected
}
