// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[dscp]` and `[marks]`: what is done with code points, and which bits
//! of marks are ours.

use crate::codes;
use crate::condition::control_group;
use crate::condition::matching::number;
use crate::model::{Directions, DscpTreatment};
use crate::read::{understood, word};
use weirgate_document::{Problems, Reader, Value};
use weirgate_signatures::BITS;
use weirgate_units::Dscp;

/// The bits of a connection's mark without `[marks]`: 255 kept rules.
const MARK_MASK: u32 = 0x00ff_0000;

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

/// The lowest of the bits for what payloads betray, without `[marks]`.
const PAYLOAD_LOWEST: u8 = 24;

/// Bits of marks.
#[derive(Debug, Clone)]
pub(crate) struct Marks {
    /// Those of a connection's mark that keep decisions.
    pub(crate) mask: u32,
    /// The lowest of those of a packet's that say what a payload betrays.
    pub(crate) payload_lowest: u8,
    /// Those of a packet's that number its sender's control group.
    pub(crate) control_groups: u32,
    /// Those of a connection's that keep which inside host it is of.
    pub(crate) inside: Option<Value<u32>>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            mask: MARK_MASK,
            payload_lowest: PAYLOAD_LOWEST,
            control_groups: control_group::MASK,
            inside: None,
        }
    }
}

/// Reads `[marks]`.
pub(crate) fn read_marks(mut table: Reader<'_, '_>) -> Marks {
    let standard = Marks::default();
    let payload = understood(&mut table, "payload", codes::MARK, |text| {
        let mask = number(text)?;
        let lowest = mask.trailing_zeros();
        if mask.checked_shr(lowest) != Some((1 << BITS) - 1) {
            return Err((
                format!("`{text}` is not {BITS} bits that stand together"),
                "write a mask such as `0x07000000`".to_owned(),
            ));
        }
        Ok(lowest as u8)
    });
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
    let groups = understood(&mut table, "cgroup", codes::MARK, control_group::mask);
    let inside = understood(&mut table, "inside", codes::MARK, control_group::mask);
    Marks {
        mask: mask.map_or(standard.mask, |mask| mask.value),
        payload_lowest: payload.map_or(standard.payload_lowest, |lowest| lowest.value),
        control_groups: groups.map_or(standard.control_groups, |mask| mask.value),
        inside,
    }
}
