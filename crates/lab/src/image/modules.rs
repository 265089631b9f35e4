// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guest's kernel modules, for the parts of a kernel that handle packets, and the index by
//! which it finds them, like that of `depmod`.

use super::archive::Archive;
use crate::error::LabError;
use crate::kernel::compression::Compression;
use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::{Endianness, read::elf::SectionHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The parts of a kernel's module tree that the guest gets, with their dependencies. A name
/// without a final `/` is a single module.
///
/// Before Linux 6.15, nf_tables needs CRC-32C. It requests that by an alias, which is only known
/// from the whole tree.
const WANTED: [&str; 45] = [
    "crypto/crc32c_generic",
    "drivers/char/virtio_console",
    "drivers/net/amt",
    "drivers/net/bonding/",
    "drivers/net/dummy",
    "drivers/net/ifb",
    "drivers/net/ipvlan/",
    "drivers/net/macvlan",
    "drivers/net/netkit",
    "drivers/net/nlmon",
    "drivers/net/ppp/",
    "drivers/net/tap",
    "drivers/net/tun",
    "drivers/net/veth",
    "drivers/net/vrf",
    "drivers/net/vxlan/",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci",
    "drivers/virtio/virtio_ring",
    "lib/ts_bm",
    "lib/ts_fsm",
    "lib/ts_kmp",
    "net/8021q/",
    "net/802/",
    "net/atm/",
    "net/bridge/",
    "net/core/",
    "net/ife/",
    "net/ipv4/",
    "net/ipv6/",
    "net/key/",
    "net/llc/",
    "net/mptcp/",
    "net/netfilter/ipset/",
    "net/netfilter/nf_",
    "net/netfilter/nfnetlink",
    "net/netfilter/nft_",
    "net/netfilter/x_tables",
    "net/netfilter/xt_",
    "net/netlink/",
    "net/packet/",
    "net/psample/",
    "net/sched/",
    "net/unix/",
    "net/xfrm/",
];

/// Additional modules of a kernel with PPP, which is generic and is used with tunnels and radio.
/// The cloud kernel only has WireGuard of these, and its image stays unchanged.
const WANTED_WITH_PPP: [&str; 5] = [
    "drivers/net/wireguard/",
    "drivers/net/wireless/virtual/mac80211_hwsim",
    "drivers/net/wireless/mac80211_hwsim",
    "net/mac80211/",
    "net/wireless/",
];

/// The directory that identifies a kernel with PPP.
const PPP: &str = "drivers/net/ppp/";

/// The path of the index in the guest.
pub(crate) const INDEX: &str = "/usr/lib/modules/index";

/// A module of the tree.
#[derive(Debug)]
struct Module {
    content: Vec<u8>,
    aliases: Vec<String>,
    needs: Vec<String>,
}

/// Adds modules and index to the image. Also adds the lists of modules in which programs look up
/// the features of a kernel (modules.dep(5)).
pub(crate) fn add(archive: &mut Archive, tree: &Path, release: &str) -> Result<(), LabError> {
    let root = tree.join("kernel");
    let files = module_files(&root)?;
    let mut modules = BTreeMap::new();
    let parts = parts(files.values());
    let mut wanted: Vec<String> = files
        .iter()
        .filter(|(_, path)| is_among(&parts, path))
        .map(|(name, _)| name.clone())
        .collect();
    while let Some(name) = wanted.pop() {
        // A dependency without a file is built into the kernel.
        let Some(path) = files.get(&name) else {
            continue;
        };
        if modules.contains_key(&name) {
            continue;
        }
        let module = read(&root, path)?;
        wanted.extend(module.needs.iter().cloned());
        modules.insert(name, module);
    }
    archive.file(INDEX, index(&modules).into_bytes());
    let lists = format!("/usr/lib/modules/{release}");
    archive.file(&format!("{lists}/modules.dep"), listed(&modules).into());
    let built_in = tree.join("modules.builtin");
    let unreadable = LabError::file("cannot be read", &built_in);
    let built_in = fs::read(&built_in).map_err(unreadable)?;
    archive.file(&format!("{lists}/modules.builtin"), built_in);
    for (name, module) in modules {
        archive.file(&guest_path(&name), module.content);
    }
    Ok(())
}

fn guest_path(name: &str) -> String {
    format!("/usr/lib/modules/{name}.ko")
}

/// Returns the parts of a tree with these files that the guest gets.
fn parts<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'static str> {
    let mut files = files.into_iter();
    let more: &[&str] = if files.any(|path| path.starts_with(PPP)) {
        &WANTED_WITH_PPP
    } else {
        &[]
    };
    [&WANTED[..], more].concat()
}

fn is_among(parts: &[&str], path: &Path) -> bool {
    let path = path.to_string_lossy();
    parts.iter().any(|wanted| {
        path.strip_prefix(wanted).is_some_and(|rest| {
            wanted.ends_with(['/', '_']) || rest.starts_with('.') || wanted.ends_with("nfnetlink")
        })
    })
}

/// Returns all module files below `root`, by module name.
fn module_files(root: &Path) -> Result<BTreeMap<String, PathBuf>, LabError> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let unreadable = || LabError::file("cannot be read", &directory);
        for entry in fs::read_dir(&directory).map_err(unreadable())? {
            let path = entry.map_err(unreadable())?.path();
            if path.is_dir() {
                directories.push(path);
            } else if let Some(name) = module_name(&path)
                && let Ok(below) = path.strip_prefix(root)
            {
                files.insert(name, below.to_owned());
            }
        }
    }
    Ok(files)
}

/// Returns the module's name: `x-y.ko.xz` contains the module `x_y`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn read(root: &Path, path: &Path) -> Result<Module, LabError> {
    let file = root.join(path);
    let packed = fs::read(&file).map_err(LabError::file("cannot be read", &file))?;
    let bad = |reason: String| LabError::BadModule {
        path: file.clone(),
        reason,
    };
    let mut content = match Compression::of(&packed) {
        Some(compression) => compression
            .unpack(&packed)
            .map_err(|error| bad(error.to_string()))?,
        None => packed,
    };
    content.truncate(unsigned_length(&content));
    let information = information(&content).map_err(|error| bad(error.to_string()))?;
    let mut module = Module {
        aliases: Vec::new(),
        needs: Vec::new(),
        content: Vec::new(),
    };
    for field in information.split(|&byte| byte == 0) {
        let field = String::from_utf8_lossy(field);
        match field.split_once('=') {
            Some(("alias", alias)) if !alias.contains(['*', '?', '[']) => {
                module.aliases.push(normal(alias));
            }
            Some(("depends", names)) => module.needs.extend(list(names)),
            // `pre:` modules are loaded before this one, `post:` modules after it; only the
            // former are required.
            Some(("softdep", order)) => {
                if let Some(before) = order
                    .split("post:")
                    .next()
                    .and_then(|s| s.split("pre:").nth(1))
                {
                    module.needs.extend(before.split_whitespace().map(normal));
                }
            }
            _ => {}
        }
    }
    module.content = content;
    Ok(module)
}

/// Returns a module's length without its signature (include/linux/module_signature.h). apt has
/// verified the packages. Verifying each module again would cost every guest 24 virtual
/// milliseconds per module.
fn unsigned_length(module: &[u8]) -> usize {
    const MARK: &[u8] = b"~Module signature appended~\n";
    /// The size of the description between signature and mark. Its last four bytes are the
    /// signature's length in big-endian order.
    const DESCRIPTION: usize = 12;
    let length = module.strip_suffix(MARK).and_then(|rest| {
        let (description, size) = rest.split_last_chunk::<4>()?;
        let signature = u32::from_be_bytes(*size) as usize;
        (description.len() + 4).checked_sub(DESCRIPTION + signature)
    });
    length.unwrap_or(module.len())
}

fn list(names: &str) -> impl Iterator<Item = String> {
    names.split(',').filter(|name| !name.is_empty()).map(normal)
}

/// Normalises a name: `-` and `_` are equivalent in module names and aliases.
fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the section that describes a module: `key=value` texts separated by zeros.
fn information(module: &[u8]) -> object::read::Result<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(module)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, module)?;
    match sections.section_by_name(endian, b".modinfo") {
        Some((_, section)) => Ok(section.data(endian, module)?.to_vec()),
        None => Ok(Vec::new()),
    }
}

/// Returns each module's file with its dependencies, in the format of depmod(8).
fn listed(modules: &BTreeMap<String, Module>) -> String {
    let mut text = String::new();
    for (name, module) in modules {
        // Writing to a string cannot fail.
        let _ = write!(text, "../{name}.ko:");
        let needs = module.needs.iter();
        for need in needs.filter(|need| modules.contains_key(*need)) {
            let _ = write!(text, " ../{need}.ko");
        }
        text.push('\n');
    }
    text
}

/// Returns the index: a line for each name by which a module may be requested, with the files to
/// load, in order.
fn index(modules: &BTreeMap<String, Module>) -> String {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, module) in modules {
        names.entry(name).or_default().push(name);
        for alias in &module.aliases {
            names.entry(alias).or_default().push(name);
        }
    }
    let mut text = String::new();
    for (name, targets) in names {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for target in targets {
            load_order(modules, target, &mut seen, &mut order);
        }
        text.push_str(name);
        for module in order {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}", guest_path(module));
        }
        text.push('\n');
    }
    text
}

/// Appends the dependencies of `name`, then `name` itself.
fn load_order<'a>(
    modules: &'a BTreeMap<String, Module>,
    name: &'a str,
    seen: &mut BTreeSet<&'a str>,
    order: &mut Vec<&'a str>,
) {
    let Some(module) = modules.get(name) else {
        return;
    };
    if !seen.insert(name) {
        return;
    }
    for need in &module.needs {
        load_order(modules, need, seen, order);
    }
    order.push(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(aliases: &[&str], needs: &[&str]) -> Module {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Module {
            content: Vec::new(),
            aliases: owned(aliases),
            needs: owned(needs),
        }
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let modules = BTreeMap::from([
            ("a".into(), module(&["x"], &["c", "b", "built_in"])),
            ("b".into(), module(&["x", "y"], &["c"])),
            // A cycle of dependencies must not loop for ever.
            ("c".into(), module(&[], &["a"])),
        ]);
        assert_eq!(
            index(&modules),
            "a /usr/lib/modules/c.ko /usr/lib/modules/b.ko /usr/lib/modules/a.ko\n\
             b /usr/lib/modules/a.ko /usr/lib/modules/c.ko /usr/lib/modules/b.ko\n\
             c /usr/lib/modules/b.ko /usr/lib/modules/a.ko /usr/lib/modules/c.ko\n\
             x /usr/lib/modules/c.ko /usr/lib/modules/b.ko /usr/lib/modules/a.ko\n\
             y /usr/lib/modules/a.ko /usr/lib/modules/c.ko /usr/lib/modules/b.ko\n"
        );
        assert_eq!(
            listed(&modules),
            "../a.ko: ../c.ko ../b.ko\n../b.ko: ../c.ko\n../c.ko: ../a.ko\n"
        );
    }

    #[test]
    fn signatures_are_cut_off() {
        let signed = |size: u32| {
            let mut module = b"code".to_vec();
            module.extend_from_slice(b"signature12345678");
            module.extend_from_slice(&size.to_be_bytes());
            module.extend_from_slice(b"~Module signature appended~\n");
            module
        };
        assert_eq!(unsigned_length(&signed(9)), 4);
        assert_eq!(unsigned_length(&signed(900)), signed(900).len());
        assert_eq!(unsigned_length(b"code"), 4);
    }

    #[test]
    fn only_what_carries_packets_is_wanted() {
        let wanted = |path: &str| is_among(&WANTED, Path::new(path));
        assert!(wanted("drivers/net/tun.ko.xz") && wanted("net/sched/sch_htb.ko"));
        assert!(
            wanted("net/netfilter/nft_limit.ko.zst") && wanted("net/netfilter/nfnetlink_log.ko")
        );
        let of = |tree: &[&str]| parts(&tree.iter().map(PathBuf::from).collect::<Vec<_>>());
        let (tunnel, ppp) = (
            "drivers/net/wireguard/wireguard.ko.xz",
            "drivers/net/ppp/pppoe.ko.xz",
        );
        assert!(!is_among(&of(&[tunnel]), Path::new(tunnel)));
        assert!(is_among(&of(&[tunnel, ppp]), Path::new(tunnel)));
        assert!(!wanted("drivers/net/tunnel.ko") && !wanted("net/netfilter/ipvs/ip_vs.ko"));
    }
}
