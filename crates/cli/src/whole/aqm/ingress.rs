// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate aqm load --ingress` and the commands that follow it. They put a discipline on a
//! virtual queue of a device's arriving packets. No packet waits there.

use crate::whole::aqm::arguments::Load;
use crate::whole::aqm::own;
use crate::whole::aqm::target::{Target, placed};
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use weirgate_aqm::{Discipline, Link, Settings, VirtualQueue};
use weirgate_bpf::{FilterMaps, FilterSetup, IngressAttachment, Store};
use weirgate_console::discipline::{LinkArguments, discipline, failed, known, set};
use weirgate_console::exit::{Failure, Outcome, Status, wrong};
use weirgate_console::json::Document;
use weirgate_console::output;
use weirgate_console::runtime::in_runtime;

/// The largest packet, with Ethernet's header, in bytes. It is used if the device does not report
/// its MTU.
const USUAL_MTU: u32 = 1_514;

/// The length of Ethernet's header in bytes, and ARPHRD_ETHER (linux/if_arp.h).
const HEADER: u32 = 14;
const ETHERNET: u32 = 1;

/// A discipline on the packets that arrive at a device.
pub struct AtIngress {
    pub one: IngressAttachment,
    pub discipline: Discipline,
    pub maps: FilterMaps,
}

impl AtIngress {
    /// Returns the discipline on a device's arriving packets, if there is one.
    pub fn on(target: &Target, store: &Store) -> Result<Option<Self>, Failure> {
        let Some(one) = store.ingress_at(target.point) else {
            return Ok(None);
        };
        let Some(discipline) = known(&one.discipline) else {
            return Ok(None);
        };
        let maps = store.ingress_maps(&one, discipline).map_err(failed)?;
        Ok(Some(Self {
            one,
            discipline,
            maps,
        }))
    }

    pub fn required(target: &Target, store: &Store) -> Result<Self, Failure> {
        Self::on(target, store)?.ok_or_else(|| {
            wrong(format!(
                "{}: no discipline is loaded there with --ingress",
                target.name
            ))
        })
    }
}

/// Returns what `aqm show` calls a discipline on arriving packets.
pub fn kind(discipline: Discipline) -> String {
    format!("{} at ingress", discipline.name())
}

/// `weirgate aqm load --ingress`.
pub fn load(load: &Load, document: &Document) -> Outcome {
    let discipline = discipline(&load.discipline)?;
    if let Some(why) = VirtualQueue::refusal(discipline) {
        return Err(wrong(format!("{why}; load it without --ingress")));
    }
    if !load.classes.is_empty() {
        return Err(wrong(
            "classes have queues of their own, and at ingress nothing waits",
        ));
    }
    let mut settings = Settings::new(discipline);
    set(&mut settings, &load.settings)?;
    let mut link = Link::default();
    load.link.apply(&mut link, &mut 0)?;
    if link.rate_bytes_s == 0 {
        return Err(wrong(
            "at ingress only the rate defines a queue; add --rate, a little below the highest \
             arrival rate",
        ));
    }
    in_runtime(async {
        let target = Target::find(&load.device).await?;
        let name = &target.name;
        let _later = output::later();
        let store = own::store()?;
        let before = AtIngress::on(&target, &store)?;
        if let (Some(before), false) = (&before, load.replace) {
            return Err(Failure::Refused(format!(
                "{name}: {} already limits arriving packets; --replace puts the discipline in \
                 its place",
                before.discipline.name()
            )));
        }
        link.mtu_bytes = largest_packet(name.as_str());
        own::same_as_loaded(discipline)?;
        let setup = FilterSetup {
            link,
            parts: parts(&settings),
            settings,
        };
        // The seed is random, so that no outsider can make flows collide in the hash.
        let seed = RandomState::new().build_hasher().finish() as u32;
        store
            .put_ingress(target.point, &setup, seed)
            .map_err(failed)?;
        own::keep(discipline)?;
        if let Some(before) = before.filter(|before| before.discipline != discipline) {
            own::release(&store, before.discipline)?;
        }
        placed(document, name.as_str(), "ingress", &kind(discipline));
        document.note(&format!("{name}: {} is at ingress", discipline.name()));
        Ok(Status::Done)
    })
}

/// `weirgate aqm change --ingress`.
pub fn change(
    device: &str,
    words: &[String],
    link: &LinkArguments,
    document: &Document,
) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let _later = output::later();
        let store = own::store()?;
        let there = AtIngress::required(&target, &store)?;
        let setup = there.maps.setup().map_err(failed)?;
        let mut setup = setup.ok_or_else(|| {
            wrong(format!(
                "{device}: its settings are not known; load it again"
            ))
        })?;
        set(&mut setup.settings, words)?;
        link.apply(&mut setup.link, &mut 0)?;
        setup.parts = parts(&setup.settings);
        there.maps.set(&setup).map_err(failed)?;
        placed(document, device, "ingress", &kind(there.discipline));
        Ok(Status::Done)
    })
}

/// `weirgate aqm unload --ingress`.
pub fn unload(device: &str, document: &Document) -> Outcome {
    in_runtime(async {
        let target = Target::find(device).await?;
        let _later = output::later();
        let store = own::store()?;
        let there = AtIngress::required(&target, &store)?;
        store.remove_ingress(&there.one).map_err(failed)?;
        placed(document, device, "ingress", &kind(there.discipline));
        own::release(&store, there.discipline)?;
        Ok(Status::Done)
    })
}

/// Returns the parts of a packet that define its flow: all of them if the discipline has no
/// parameter `flows`.
fn parts(settings: &Settings) -> u64 {
    let rows = settings.rows().into_iter();
    let named = rows.filter(|(row, _)| row.name == "flows");
    named.map(|(_, value)| value).next().unwrap_or(31)
}

/// Returns the largest packet of a device in bytes, with its header.
fn largest_packet(device: &str) -> u32 {
    let number = |file: &str| -> Option<u32> {
        let text = fs::read_to_string(format!("/sys/class/net/{device}/{file}")).ok()?;
        text.trim().parse().ok()
    };
    let header = if number("type") == Some(ETHERNET) {
        HEADER
    } else {
        0
    };
    number("mtu").map_or(USUAL_MTU, |mtu| mtu + header)
}
