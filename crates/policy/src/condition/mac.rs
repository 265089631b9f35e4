// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local-mac`: the MAC address from which an upstream packet came.

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts, Origin, first};
use crate::field::FieldKind;
use crate::named::group;
use crate::named::member::Mac;
use weirgate_document::{SourceSpan, Value};

/// The accepted MAC addresses. Behind another router, packets have that router's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Macs(pub Vec<Value<Mac>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "local-mac",
    FieldKind::List("02:00:5e:10:00:07"),
    "Source MAC addresses of upstream packets, or @groups; a host behind another router has that \
     router's",
    |cell, when| {
        let list = group::elements(cell, codes::MAC, "macs", |group| &group.macs, Mac::read);
        when.add_list(list, Macs);
    },
);

impl Facts for Macs {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn origin(&self) -> Option<Origin> {
        Some(Origin::Outside("`local-mac`"))
    }

    fn elements(&self) -> usize {
        self.0.len()
    }
}
