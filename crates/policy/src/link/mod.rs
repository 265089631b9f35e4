// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `[link]`.

pub(crate) mod engine;
pub(crate) mod inbound;
pub(crate) mod moves;
pub(crate) mod track;

use crate::class::fair;
use crate::class::zero;
use crate::codes;
use crate::model::{Amount, Inbound, Link};
use crate::read::{choose, device, implied, one_of, understood, understood_list, word};
use weirgate_document::{Kind, Reader, Span, Value};
use weirgate_linklayer::{DeviceKind, Framing, LinkLayer};
use weirgate_state::DeviceName;
use weirgate_units::{Rate, Share};

/// The margin below the line upstream: enough for the rounding of rates and
/// for clocks that differ by 1000 parts in a million, ten times what Ethernet
/// and DSL allow; at 512 kbit/s it is the 1 kbit/s of Brouer 9.2.
const MARGIN: Share = Share::millionths(2_000);

/// The margin downstream, where the queue at the far end of the line can only
/// drain as fast as we stay below it.
const MARGIN_DOWN: Share = Share::millionths(30_000);

/// Replaces a name that could not be read; never part of a returned policy.
fn unread() -> DeviceName {
    DeviceName::new("unread").expect("six letters are a device name")
}

/// A link where the policy has none: problems are reported already.
pub(crate) fn placeholder(span: Span) -> Link {
    let at = |()| Value {
        value: (),
        span: span.clone(),
        line: 1,
    };
    let raw = LinkLayer::custom(0, 0, Framing::None).expect("nothing added is in range");
    Link {
        span: span.clone(),
        bridge: false,
        device: at(()).map(|()| unread()),
        lan: Vec::new(),
        up: at(()).map(|()| Rate::default()),
        down: None,
        layer: at(()).map(|()| raw),
        margin: at(()).map(|()| Amount::Share(MARGIN)),
        margin_down: at(()).map(|()| Amount::Share(MARGIN_DOWN)),
        inbound: at(()).map(|()| Inbound::None),
        ifb: at(()).map(|()| unread()),
        device_kind: at(()).map(|()| DeviceKind::Ethernet),
        lan_kind: at(()).map(|()| DeviceKind::Ethernet),
        mtu: at(()).map(|()| 1500),
        fair: None,
        engine: None,
        ack_filter: None,
        timer_slack: None,
        moves: None,
    }
}

pub(crate) fn read(mut table: Reader<'_, '_>) -> Link {
    let mut link = placeholder(table.span());
    let header = table.line();
    read_devices(&mut table, &mut link);
    read_rates(&mut table, &mut link);
    read_inbound(&mut table, &mut link);
    let kinds = DeviceKind::ALL.map(|kind| (kind.name(), kind));
    let stated = word(&mut table, "device-kind", &kinds);
    let unstated = stated.is_none() && !table.has("device-kind");
    if unstated && link.device.value.as_str().starts_with("ppp") {
        table.problems().warning(
            codes::KIND_UNSTATED,
            link.device.span.clone(),
            format!(
                "`{}` looks like a PPP device, and is taken for Ethernet",
                link.device.value
            ),
            "write `device-kind = \"pppoe\"` or `\"ppp\"`: Linux counts 14 bytes less there",
        );
    }
    link.device_kind = stated.unwrap_or_else(|| implied(DeviceKind::Ethernet, &table));
    link.lan_kind = word(&mut table, "lan-kind", &kinds)
        .unwrap_or_else(|| implied(DeviceKind::Ethernet, &table));
    link.layer = read_layer(&mut table, link.device_kind.value).unwrap_or_else(|| Value {
        line: header,
        ..link.layer.clone()
    });
    link.mtu = table
        .integer("mtu", 576..=2048)
        .map_or_else(|| implied(1500, &table), |mtu| mtu.map(|mtu| mtu as u32));
    link.fair = fair::read(&mut table);
    link.engine = engine::read(&mut table);
    link.ack_filter = engine::read_ack_filter(&mut table);
    link.timer_slack = engine::read_timer_slack(&mut table);
    link.moves = moves::read(&mut table);
    link
}

fn read_devices(table: &mut Reader<'_, '_>, link: &mut Link) {
    match understood(table, "device", codes::DEVICE, device) {
        Some(found) => link.device = found,
        None if table.has("device") => {}
        None => {
            table.missing::<()>(
                "device",
                "name the device by which packets leave for the outside",
            );
        }
    }
    if table.has("lan") {
        link.lan = understood_list(table, "lan", codes::DEVICE, device);
    }
    let (wan, before) = (link.device.value.clone(), link.device.value.as_str());
    // An IFB's name tells which device feeds it, as far as 15 bytes allow.
    let own: String = format!("ifb-{before}").chars().take(15).collect();
    link.ifb = understood(table, "ifb", codes::DEVICE, device)
        .unwrap_or_else(|| implied(DeviceName::new(own).unwrap_or_else(unread), table));
    let mut taken = vec![(wan, "device")];
    let others = link
        .lan
        .iter()
        .map(|lan| (lan, "lan"))
        .chain([(&link.ifb, "ifb")]);
    for (name, role) in others {
        if let Some(other) = taken.iter().find(|other| other.0 == name.value) {
            table.problems().error(
                codes::DEVICE,
                name.span.clone(),
                format!("`{}` is both `{}` and `{role}`", name.value, other.1),
                "each role needs a device of its own",
            );
        } else {
            taken.push((name.value.clone(), role));
        }
    }
}

fn read_rates(table: &mut Reader<'_, '_>, link: &mut Link) {
    match table.parsed::<Rate>("up") {
        Some(up) => {
            zero(table, &up);
            link.up = up;
        }
        None if table.has("up") => {}
        None => {
            let hint = "state the line's upstream rate, such as `up = \"512kbit\"`";
            table.missing::<()>("up", hint);
        }
    }
    link.down = table.parsed::<Rate>("down");
    if let Some(down) = &link.down {
        zero(table, down);
    }
    link.margin = table
        .parsed("margin")
        .unwrap_or_else(|| implied(Amount::Share(MARGIN), table));
    link.margin_down = table
        .parsed("margin-down")
        .unwrap_or_else(|| implied(Amount::Share(MARGIN_DOWN), table));
}

fn read_inbound(table: &mut Reader<'_, '_>, link: &mut Link) {
    const WORDS: [(&str, Inbound); 5] = [
        ("ifb", Inbound::Ifb),
        ("lan", Inbound::Lan),
        ("filter", Inbound::Filter),
        ("police", Inbound::Police),
        ("none", Inbound::None),
    ];
    let stated = word(table, "inbound", &WORDS);
    link.bridge = table.boolean("bridge").is_some_and(|flag| flag.value);
    let implied_kind = if table.has("down") && link.bridge {
        Inbound::Lan
    } else if table.has("down") {
        Inbound::Ifb
    } else {
        Inbound::None
    };
    link.inbound = stated.unwrap_or_else(|| implied(implied_kind, table));
    let (kind, span) = (link.inbound.value, link.inbound.span.clone());
    if kind != Inbound::Ifb && table.has("ifb") {
        table.problems().error(
            codes::INBOUND,
            link.ifb.span.clone(),
            "`ifb` names a device that this policy does not make",
            "leave it out, or write `inbound = \"ifb\"`",
        );
    }
    if kind != Inbound::None && !table.has("down") {
        table.problems().error(
            codes::INBOUND,
            span.clone(),
            "the downstream cannot be held to a rate that is not said",
            "add the line's rate, such as `down = \"2mbit\"`, or write `inbound = \"none\"`",
        );
    }
    if kind == Inbound::Ifb && link.bridge {
        table.problems().error(
            codes::INBOUND,
            span.clone(),
            "on a bridge the downstream is shaped where it leaves by the port to the inside",
            "write `inbound = \"lan\"`, or leave `inbound` out",
        );
    }
    if link.bridge && link.lan.len() != 1 {
        table.problems().error(
            codes::INBOUND,
            table.span(),
            "a transparent bridge has two ports: `device` to the outside, one in `lan`",
            "write `lan = \"...\"`",
        );
    } else if kind == Inbound::Lan && link.lan.len() != 1 {
        table.problems().error(
            codes::INBOUND,
            span,
            "shaping on the LAN device needs exactly one device in `lan`",
            "write `lan = \"...\"`, or `inbound = \"ifb\"` where there are several",
        );
    }
}

fn read_layer(table: &mut Reader<'_, '_>, kind: DeviceKind) -> Option<Value<LinkLayer>> {
    match table.kind("layer") {
        None => table.missing(
            "layer",
            "name what is between here and the other end, such as `layer = \"adsl:pppoe-llc\"`, \
             `\"vdsl2:pppoe\"`, `\"docsis\"` or `\"ethernet\"`",
        ),
        Some(Kind::Table) => {
            let layer = table.table("layer")?;
            let (span, line) = (layer.span(), layer.line());
            read_layer_table(layer, kind).map(|value| Value { value, span, line })
        }
        Some(_) => understood(table, "layer", codes::LAYER, named),
    }
}

fn named(name: &str) -> Result<LinkLayer, (String, String)> {
    LinkLayer::named(name).map_err(|error| {
        let text = error.to_string();
        let (wrong, right) = text.split_once("; ").unwrap_or((&text, ""));
        (wrong.to_owned(), right.to_owned())
    })
}

/// A link layer by name with options, or by numbers.
fn read_layer_table(mut table: Reader<'_, '_>, kind: DeviceKind) -> Option<LinkLayer> {
    const FRAMINGS: [(&str, Framing); 3] = [
        ("none", Framing::None),
        ("atm", Framing::Atm),
        ("ptm", Framing::Ptm),
    ];
    let oam = table.boolean("oam");
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
        understood(&mut table, "name", codes::LAYER, named)?.value
    } else {
        let overhead = table.integer("overhead", -64..=256);
        if overhead.is_none() && !table.has("overhead") {
            let hint = "state the bytes added to every packet, or a `name`";
            table.missing::<()>("overhead", hint);
        }
        let mpu = table
            .integer("mpu", 0..=256)
            .map_or(0, |mpu| mpu.value as u32);
        let framing = match word(&mut table, "framing", &FRAMINGS) {
            Some(framing) => framing.value,
            None if table.has("framing") => return None,
            None => table.missing("framing", "write `\"atm\"`, `\"ptm\"` or `\"none\"`")?,
        };
        let to_device = relative_to_device(&mut table);
        let overhead = overhead?;
        let bytes = overhead.value as i32;
        let made = if to_device? {
            LinkLayer::relative_to_device(bytes, mpu, framing, kind)
        } else {
            LinkLayer::custom(bytes, mpu, framing)
        };
        match made {
            Ok(layer) => layer,
            Err(error) => {
                let text = error.to_string();
                let (wrong, right) = text.split_once("; ").unwrap_or((&text, ""));
                table
                    .problems()
                    .error(codes::LAYER_NUMBERS, overhead.span, wrong, right);
                return None;
            }
        }
    };
    let Some(oam) = oam.filter(|oam| oam.value) else {
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

/// What `overhead` is relative to: the IP packet, or what Linux counts. Said
/// explicitly, because the two differ by 14 bytes on Ethernet and tc's manual
/// pages mean the second.
fn relative_to_device(table: &mut Reader<'_, '_>) -> Option<bool> {
    let words = [("ip", false), ("device", true)];
    let Some(text) = table.text("relative-to") else {
        if table.has("relative-to") {
            return None;
        }
        return table.missing(
            "relative-to",
            "write `\"ip\"` where the overhead is added to the IP packet, `\"device\"` where it \
             is added to what Linux counts (as in tc)",
        );
    };
    let found = one_of(&text.value, &words);
    if found.is_none() {
        let message = format!("`relative-to` cannot be `{}`", text.value);
        table
            .problems()
            .error(codes::WORD, text.span, message, choose(&text.value, &words));
    }
    found
}
