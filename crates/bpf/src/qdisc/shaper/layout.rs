// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classes as bytes of the map of settings (`struct shaper_settings`).

use super::{CLASS_BYTES, CLASSES, Class, Classes, RULE_BYTES, RULE_WORDS, SETTINGS_BYTES};
use crate::error::BpfError;
use crate::qdisc::kind::{decode_link, encode_link};
use weirgate_aqm::{Discipline, Link as LinkFacts, Settings};

/// The first eight bytes.
pub(super) fn word(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |eight| u64::from_ne_bytes(*eight))
}

/// `struct shaper_settings`, read.
pub(super) fn decode(bytes: &[u8]) -> Option<Classes> {
    let start = size_of::<LinkFacts>();
    let small = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let count = small(start + 8)? as usize;
    let mut classes = Vec::new();
    for class in bytes.get(start + 16..)?.chunks(CLASS_BYTES).take(count) {
        let words: Vec<u64> = class.as_chunks::<8>().0.iter().map(|it| word(it)).collect();
        let kind = RULE_BYTES / 8;
        let discipline = *Discipline::all().get(*words.get(kind)? as usize)?;
        classes.push(Class {
            classid: (words.get(RULE_WORDS)? >> 32) as u32,
            guarantee_bytes_s: *words.first()?,
            ceiling_bytes_s: *words.get(1)?,
            weight: *words.get(2)?,
            credit_ns: *words.get(3)?,
            priority: *words.get(RULE_WORDS)? as u32,
            settings: Settings::from_values(discipline, words.get(kind + 1..)?)?,
        });
    }
    Some(Classes {
        link: decode_link(bytes)?,
        gate_bytes_s: word(bytes.get(start..)?),
        classes,
        other: small(start + 12)? as usize,
    })
}

/// `struct shaper_settings`.
pub(super) fn encode(setup: &Classes) -> Result<Vec<u8>, BpfError> {
    let count = setup.classes.len();
    if count == 0 || count > CLASSES {
        return Err(BpfError::Classes(format!(
            "{count} classes; a shaper has 1 to {CLASSES}"
        )));
    }
    if setup.other >= count {
        return Err(BpfError::Classes(format!(
            "class {} is for packets that name none; there are {count}, counted from 0",
            setup.other
        )));
    }
    let mut bytes = encode_link(&setup.link);
    bytes.extend(setup.gate_bytes_s.to_ne_bytes());
    bytes.extend((count as u32).to_ne_bytes());
    bytes.extend((setup.other as u32).to_ne_bytes());
    for class in &setup.classes {
        let disciplines = Discipline::all();
        let own = class.settings.discipline();
        let kind = disciplines.iter().position(|one| *one == own).unwrap_or(0);
        let start = bytes.len();
        for number in [
            class.guarantee_bytes_s,
            class.ceiling_bytes_s,
            class.weight,
            class.credit_ns,
        ] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(class.priority.to_ne_bytes());
        bytes.extend(class.classid.to_ne_bytes());
        bytes.extend((kind as u64).to_ne_bytes());
        for value in class.settings.values() {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.resize(start + CLASS_BYTES, 0);
    }
    bytes.resize(SETTINGS_BYTES, 0);
    Ok(bytes)
}
