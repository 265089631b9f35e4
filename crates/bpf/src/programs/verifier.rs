// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks a compiled discipline with the kernel's verifier, without using it.

use crate::programs::{Object, log, sources};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{ObjectBuilder, Program};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

/// The cost of verifying a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// The name of the program.
    pub program: String,
    /// Instructions that the verifier processed, of 1,000,000 allowed.
    pub verified: u32,
    /// Instructions of the program.
    pub instructions: usize,
}

/// The reason why the kernel rejects a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// `FILE:LINE` of the source, if the verifier named one.
    pub line: Option<String>,
    /// The source text of that line.
    pub code: String,
    /// The verifier's message.
    pub why: String,
    /// The last lines of the verifier's log.
    pub log: String,
}

/// Loads a compiled discipline and unloads it again. Needs root. The bytes are copied to aligned
/// memory, because libbpf reads 64-bit words.
pub fn verify(object: &[u8]) -> Result<Vec<Cost>, Refused> {
    let aligned = Object::from(object);
    let (loaded, log) = log::recorded(|| {
        ObjectBuilder::default()
            .name("verify")?
            .open_memory(&aligned)?
            .load()
    });
    let object = loaded.map_err(|error| read(&error.to_string(), log))?;
    let mut found = BTreeMap::new();
    for info in ProgInfoIter::default() {
        found.insert(info.id, info.verified_insns);
    }
    let cost = |program: libbpf_rs::ProgramImpl<'_>| {
        let id = Program::id_from_fd(program.as_fd()).ok();
        Cost {
            program: program.name().to_string_lossy().into_owned(),
            verified: id.and_then(|id| found.get(&id).copied()).unwrap_or(0),
            instructions: program.insn_cnt(),
        }
    };
    let loaded = object.progs().filter(libbpf_rs::ProgramImpl::autoload);
    Ok(loaded.map(cost).collect())
}

/// Finds the line and the reason in the verifier's log.
pub(crate) fn read(error: &str, log: String) -> Refused {
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let end = lines
        .iter()
        .rposition(|line| line.starts_with("processed "))
        .unwrap_or(lines.len());
    let locations: Vec<(&str, String)> =
        lines[..end].iter().filter_map(|it| location(it)).collect();
    // Prefer a line of the discipline to one of the surrounding kit.
    let own = |(_, line): &&(&str, String)| {
        let file = line.split(':').next().unwrap_or_default();
        !sources()
            .iter()
            .any(|(path, _)| path.ends_with(&format!("/{file}")))
    };
    let endless = ["too large", "too complex"]
        .iter()
        .any(|word| log.contains(word));
    let repeated = endless.then(|| jumped_back(&lines[..end])).flatten();
    let found = repeated
        .as_ref()
        .or(locations.iter().rfind(own).or(locations.last()));
    let (code, line) = match found {
        Some((code, line)) => ((*code).to_owned(), Some(line.clone())),
        None => (String::new(), None),
    };
    let tells = |line: &&&str| {
        let instruction = line.split(':').next().unwrap_or_default();
        !line.is_empty()
            && !line.starts_with(';')
            && !line.starts_with("libbpf:")
            && instruction.parse::<u32>().is_err()
    };
    let suggestion = lines[..end].iter().rposition(|line| *line == "Suggestion:");
    let suggestion = suggestion.and_then(|at| lines.get(at + 1)).copied();
    let why =
        suggestion.unwrap_or_else(|| lines[..end].iter().rfind(tells).copied().unwrap_or(error));
    Refused {
        line,
        code,
        why: why.to_owned(),
        log,
    }
}

/// Returns the line of the last backward jump. For a loop that exceeds the limit, this is the
/// line that repeats it; the verifier itself stops at an arbitrary instruction of the loop.
fn jumped_back<'l>(lines: &[&'l str]) -> Option<(&'l str, String)> {
    let at = lines.iter().rposition(|line| line.contains("goto pc-"))?;
    lines[..at].iter().rev().find_map(|line| location(line))
}

/// Parses an annotation of the log: `; CODE @ FILE:LINE`, or `PROGRAM @ FILE:LINE:COLUMN` in
/// newer kernels. Returns the source text and `FILE:LINE`.
fn location(line: &str) -> Option<(&str, String)> {
    let (code, at) = line.rsplit_once(" @ ")?;
    let mut parts = at.split(':');
    let file = parts.next()?;
    let number: u32 = parts.next()?.parse().ok()?;
    let code = code.strip_prefix("; ").map_or("", str::trim);
    Some((code, format!("{file}:{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_and_the_reason_are_found() {
        let log = "\nlibbpf: prog 'x': BPF program load failed: -22\n0: R1=ctx()\n\
                   ; s->seen[i]++; @ mean.c:31\n12: (71) r1 = *(u8 *)(r2 +0)\n\
                   invalid access to map value, value_size=8 off=9 size=1\n\
                   processed 12 insns (limit 1000000)\nlibbpf: failed to load object\n";
        let refused = read("EINVAL", log.to_owned());
        assert_eq!(refused.line.as_deref(), Some("mean.c:31"));
        assert_eq!(refused.code, "s->seen[i]++;");
        assert!(refused.why.starts_with("invalid access"), "{refused:?}");
        let log = "\nqdisc_enqueue @ mean.c:65:2\n  Source context:\n>>> 65 | all[i] = 1;\n\
                   qdisc_enqueue @ queue.h:201:55\nSuggestion:\nAdd a bounds check.\n\n\
                   processed 233 insns (limit 1000000)\n";
        let refused = read("EACCES", log.to_owned());
        assert_eq!(refused.line.as_deref(), Some("mean.c:65"));
        assert_eq!(refused.why, "Add a bounds check.");
        let log = "; odd = odd * 3 + i; @ mean.c:72\n244: (27) r0 *= 3 ; R0=scalar()\n\
                   ; AQM_LOOP (i, 100000000) @ mean.c:71\n245: (07) r9 += 1\n\
                   248: (55) if r9 != 0x5f5e0ff goto pc-7\n; u64 bytes = 0; @ mean.c:65\n\
                   242: (bf) r5 = r6\nBPF program is too large. Processed 1000001 insn\n\
                   processed 1000001 insns (limit 1000000)\n";
        let refused = read("E2BIG", log.to_owned());
        assert_eq!(refused.line.as_deref(), Some("mean.c:71"));
        let refused = read("EPERM: not permitted", String::new());
        assert_eq!(refused.why, "EPERM: not permitted");
    }
}
