// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tells the kinds of CSV files apart.

use crate::codes::KIND;
use crate::files::located::FileMistakes;
use crate::files::overrides::Overrides;
use crate::files::raw::Collected;
use crate::files::table::{Lines, Row, header, plain, well_formed};
use crate::files::{devices, plans};

/// Reads a file of devices, to which overrides apply, or of plans. The first line tells which it
/// is.
pub(crate) fn read<'t>(
    text: &'t str,
    mistakes: &FileMistakes<'_, '_>,
    overrides: &mut Overrides,
    into: &mut Collected<'t>,
) {
    let mut lines = Lines::new(text);
    let mut row = Row::default();
    if !lines.next(&mut row) {
        let hint = "give a ShapedDevices.csv, a network.json, a file of plans, or overrides";
        mistakes.error(KIND, &(0..0), "the file is empty", hint);
        return;
    }
    let names: Vec<String> = (0..row.fields())
        .map(|number| plain(row.get(number).text))
        .collect();
    let fields = row.fields();
    if names.iter().any(|name| name == "circuit id") {
        let header = header(&row, devices::COLUMNS, mistakes);
        let mut devices = devices::Devices::new(header, mistakes);
        into.by_id.reserve(text.len() / devices::LINE);
        while lines.next(&mut row) {
            if well_formed(text, &row, fields, mistakes) {
                devices.take(&row, overrides, into);
            }
        }
        devices.finish();
    } else if names.first().is_some_and(|name| name == "plan") {
        let header = header(&row, plans::COLUMNS, mistakes);
        while lines.next(&mut row) {
            if well_formed(text, &row, fields, mistakes) {
                plans::take(&row, &header, mistakes, into);
            }
        }
    } else {
        let hint = "the first line of ShapedDevices.csv begins with `Circuit ID`, that of a file of plans with `Plan`; network.json and overrides begin with `{`";
        mistakes.error(
            KIND,
            &row.whole(),
            "the first line has no known columns",
            hint,
        );
    }
}
