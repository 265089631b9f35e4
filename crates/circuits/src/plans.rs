// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans: rates by a name. Columns are called as in `ShapedDevices.csv`.

use crate::located::FileMistakes;
use crate::raw::{Collected, RATES, RawPlan, RawRates, identifier};
use crate::table::{Column, Header, Row};

/// The columns of a file of plans: the name, then the rates.
pub(crate) const COLUMNS: &[Column] = &[
    Column::needed("Plan"),
    Column::free(RATES[0]),
    Column::free(RATES[1]),
    Column::needed(RATES[2]),
    Column::needed(RATES[3]),
    Column::free("Comment"),
];

/// Takes a line.
pub(crate) fn take(
    row: &Row<'_>,
    header: &Header,
    mistakes: &FileMistakes<'_, '_>,
    into: &mut Collected,
) {
    let name = header.cell(row, 0);
    let named = identifier(&name, "plan", mistakes);
    let rates = RawRates::read(row, header, 1, mistakes);
    let Some(name) = named else {
        return;
    };
    for (number, rate) in rates.rates.iter().enumerate().skip(2) {
        if rate.is_none() && !rates.wrong {
            let message = format!("the plan `{name}` has no `{}`", RATES[number]);
            mistakes.error(
                crate::codes::RATE,
                &rates.spans[number],
                message,
                "write a number of Mbit/s",
            );
        }
    }
    into.plans.push(RawPlan {
        name: name.to_owned(),
        at: mistakes.at(&header.cell(row, 0).span),
        rates,
    });
}
