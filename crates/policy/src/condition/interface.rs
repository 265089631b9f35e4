// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `interface`: the device through which an upstream packet came in.

use crate::codes;
use crate::condition::facts::{ConditionRow, Facts, Origin, first};
use crate::field::FieldKind;
use crate::read::device;
use weirgate_document::{SourceSpan, Value};
use weirgate_state::DeviceName;

/// The accepted devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interfaces(pub Vec<Value<DeviceName>>);

pub(crate) const ROW: ConditionRow = ConditionRow::new(
    "interface",
    FieldKind::List("lan"),
    "Devices through which upstream packets came in",
    |cell, when| when.add_list(cell.list(codes::DEVICE, device), Interfaces),
);

impl Facts for Interfaces {
    fn span(&self) -> Option<&SourceSpan> {
        first(&self.0)
    }

    fn origin(&self) -> Option<Origin> {
        Some(Origin::Outside("`interface`"))
    }
}
