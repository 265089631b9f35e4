// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `layer` of the link: how many bytes a packet takes on the line, by name or by numbers.

use crate::codes;
use crate::field::{self, Cell, FieldKind, Row, Table, row, words};
use crate::read::in_two;
use weirgate_document::{Kind, Reader, Value};
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};

/// The table form of `layer`.
pub(crate) const TABLE: Table = Table {
    name: "layer",
    about: "A link layer, by name with an option or by numbers",
    rows: &[&ROWS],
};

/// The fields as written.
#[derive(Default)]
struct Written {
    name: Option<Value<LinkLayer>>,
    overhead: Option<Value<i32>>,
    base: Option<Base>,
    mpu: u32,
    framing: Option<Framing>,
    oam: Option<Value<bool>>,
}

/// The length to which `overhead` is added. On Ethernet the two differ by 14 bytes. tc's manual
/// pages mean the second, so a policy must state which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Ip,
    Device,
}

words!(Base: "ip" => Self::Ip, "device" => Self::Device);
words!(Framing: "none" => Self::None, "atm" => Self::Atm, "ptm" => Self::Ptm);

type LayerRow = Row<Written>;

const ROWS: &[LayerRow] = &[
    LayerRow::new(
        "name",
        FieldKind::Text("adsl:pppoe-llc"),
        "The link layer's name; excludes the numbers",
        |cell, layer| layer.name = cell.understood(codes::LAYER, named),
    ),
    row!(Written: "overhead": FieldKind::Integer(-64, 256) => overhead,
        "Bytes added to each packet before framing"),
    row!(Written: "relative-to" => base,
        "The length to which `overhead` is added: of the IP packet, or as the device counts it"),
    LayerRow::new(
        "mpu",
        FieldKind::Integer(0, 256),
        "The smallest size before framing, in bytes",
        |cell, layer| layer.mpu = cell.integer().map_or(0, |mpu| mpu.value),
    )
    .default("0"),
    row!(Written: "framing" => framing, "How the line carries bytes"),
    row!(Written: "oam" => oam, "Whether the provider sends OAM cells; ATM only").default("false"),
];

/// Fields that a layer by numbers needs, with the hint for each missing one.
const NUMBERS: [(&str, &str); 3] = [
    (
        "overhead",
        "state the bytes added to every packet, or a `name`",
    ),
    (
        "relative-to",
        "write `\"ip\"` where the overhead is added to the IP packet, `\"device\"` where it is \
         added to what Linux counts (as in tc)",
    ),
    ("framing", "write `\"atm\"`, `\"ptm\"` or `\"none\"`"),
];

/// Reads the field. `kind` is the kind of the link's device.
pub(crate) fn read(cell: &mut Cell<'_, '_, '_, ()>, kind: DeviceKind) -> Option<Value<LinkLayer>> {
    if cell.table.kind(cell.key) != Some(Kind::Table) {
        return cell.understood(codes::LAYER, named);
    }
    let layer = cell.table()?;
    let (span, line) = (layer.span(), layer.line());
    read_table(layer, kind).map(|value| Value { value, span, line })
}

fn named(name: &str) -> Result<LinkLayer, (String, String)> {
    LinkLayer::named(name).map_err(|unknown| {
        let (wrong, right) = in_two(&unknown);
        // A long list of near names is for choosing, a short one has corrected texts.
        if unknown.near.len() > 4 {
            return (wrong, right);
        }
        let lines: Vec<String> = unknown
            .near
            .iter()
            .map(|near| format!("`layer = \"{near}\"`"))
            .collect();
        (wrong, format!("write {}", lines.join(" or ")))
    })
}

fn read_table(mut table: Reader<'_, '_>, kind: DeviceKind) -> Option<LinkLayer> {
    let mut written = Written::default();
    field::read(&mut table, ROWS, &(), &mut written);
    let layer = if table.has("name") {
        for key in ["overhead", "mpu", "framing", "relative-to"] {
            if table.has(key) {
                table.problems().error(
                    codes::LAYER_NUMBERS,
                    table.span(),
                    format!("`{key}` contradicts a link layer that has a name"),
                    "leave out either `name` or the numbers",
                );
            }
        }
        written.name?.value
    } else {
        for (key, hint) in NUMBERS {
            if !table.has(key) {
                table.missing::<()>(key, hint);
            }
        }
        let (overhead, base, framing) = (written.overhead?, written.base?, written.framing?);
        let made = match base {
            Base::Ip => LinkLayer::custom(overhead.value, written.mpu, framing),
            Base::Device => {
                LinkLayer::relative_to_device(overhead.value, written.mpu, framing, kind)
            }
        };
        match made.map_err(|error| in_two(&error)) {
            Ok(layer) => layer,
            Err((wrong, right)) => {
                let problems = table.problems();
                problems.error(codes::LAYER_NUMBERS, overhead.span, wrong, right);
                return None;
            }
        }
    };
    let Some(oam) = written.oam.filter(|oam| oam.value) else {
        return Some(layer);
    };
    if layer.framing() != Framing::Atm {
        table.problems().error(
            codes::LAYER_NUMBERS,
            oam.span,
            "OAM cells exist on ATM only",
            "leave `oam` out, or write `framing = \"atm\"`",
        );
        return None;
    }
    Some(layer.with_oam(true))
}
