// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[dscp]` and `[marks]`: what is done with code points, and which bits
//! of a connection's mark are ours.

use crate::codes;
use crate::matching::number;
use crate::model::{Directions, DscpTreatment};
use crate::read::{understood, word};
use weirgate_document::{Problems, Reader, Value};
use weirgate_units::Dscp;

/// The bits of a connection's mark without `[marks]`: 255 kept rules.
pub(crate) const MARK_MASK: u32 = 0x00ff_0000;

const WORDS: [(&str, Directions); 3] = [
    ("up", Directions::Up),
    ("down", Directions::Down),
    ("both", Directions::Both),
];

/// Non-queue-building traffic keeps its code point: clearing it would put it
/// into the queue that it asks to be kept out of.
const NQB: u8 = 45;

/// Reads `[dscp]`.
pub(crate) fn read_dscp(mut table: Reader<'_, '_>) -> DscpTreatment {
    let problems = table.problems();
    let distrust = word(&mut table, "distrust", &WORDS);
    let wash = word(&mut table, "wash", &WORDS);
    let except: Option<Vec<_>> = table.parsed_list("except");
    let mut map: Vec<(Dscp, Dscp)> = Vec::new();
    if let Some(mut pairs) = table.table("map") {
        for from in pairs.keys() {
            let to = pairs.entry_text(&from);
            let from = code_point(&from, problems);
            let to = to.and_then(|to| code_point(&to, problems));
            map.extend(from.zip(to));
        }
    }
    if let (Some(distrust), false) = (&distrust, map.is_empty())
        && distrust.value == Directions::Both
    {
        problems.error(
            codes::DSCP_TREATMENT,
            distrust.span.clone(),
            "no code point is left to be mapped",
            "leave out `map`, or trust one direction",
        );
    }
    let except = match except {
        Some(list) => list.into_iter().map(|value| value.value).collect(),
        None => Dscp::new(NQB).into_iter().collect(),
    };
    DscpTreatment {
        line: table.line(),
        distrust: distrust.map(|found| found.value),
        wash: wash.map(|found| found.value),
        except,
        map,
    }
}

fn code_point(text: &Value<String>, problems: &Problems) -> Option<Dscp> {
    match text.value.parse() {
        Ok(found) => Some(found),
        Err(error) => {
            let error = weirgate_units::ParseError::to_string(&error);
            let (wrong, right) = error.split_once("; ").unwrap_or((&error, ""));
            problems.error(codes::DSCP_TREATMENT, text.span.clone(), wrong, right);
            None
        }
    }
}

/// Reads `[marks]`: the mask.
pub(crate) fn read_marks(mut table: Reader<'_, '_>) -> u32 {
    let mask = understood(&mut table, "mask", codes::MARK, |text| {
        let mask = number(text)?;
        let run = mask.checked_shr(mask.trailing_zeros()).unwrap_or(0);
        if mask == 0 || run & run.wrapping_add(1) != 0 {
            return Err((
                format!("the bits of `{text}` do not stand together"),
                "write a mask such as `0x00ff0000`".to_owned(),
            ));
        }
        Ok(mask)
    });
    mask.map_or(MARK_MASK, |mask| mask.value)
}
