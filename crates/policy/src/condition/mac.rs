// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local-mac`: the card that an upstream packet came from.

use crate::codes;
use crate::condition::number::Misread;
use crate::condition::{ConditionRow, Facts, Known, When, first};
use crate::field::FieldKind;
use crate::named::group;
use weirgate_document::{Span, Value};

/// A MAC address as a number of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub u64);

impl Mac {
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let parts: Vec<&str> = text.split(':').collect();
        let byte = |part: &&str| {
            let plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(part, 16).ok().filter(|_| plain)
        };
        let bytes: Vec<u64> = parts.iter().filter_map(byte).collect();
        if bytes.len() != 6 || parts.len() != 6 {
            return Err((
                format!("`{text}` is not a MAC address"),
                "write six bytes, such as `02:00:5e:10:00:01`".to_owned(),
            ));
        }
        Ok(Self(bytes.iter().fold(0, |all, byte| all << 8 | byte)))
    }
}

/// Any of these cards: the inside host's, or that of the router it is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macs(pub Vec<Value<Mac>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "local-mac",
    FieldKind::List("02:00:5e:10:00:07"),
    "Cards that upstream packets came from, or @groups",
    |cell, when| {
        let list = group::elements(cell, codes::MAC, "macs", |group| &group.macs, Mac::read);
        when.add_list(list, Macs);
    },
);

impl Facts for Macs {
    fn span(&self) -> Option<&Span> {
        first(&self.0)
    }

    fn known(&self) -> Known {
        Known::Input("a MAC address")
    }

    fn covers(&self, _later: &When) -> bool {
        false
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}
