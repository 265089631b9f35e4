// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what the kernel shows as files: its features, its clock, its tables.

use crate::programs::queues::SendingQueues;
use rustix::time::{ClockId, clock_getres};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use weirgate_state::{Ability, Conntrack, DeviceName, Interface, Machine, Presence, Timers};
use weirgate_units::Inserted as _;

/// After this many packets, a driver with byte queue limits (BQL) must have reported.
const TRIED: u64 = 100;

/// Returns what files say about the machine; devices are read elsewhere.
pub(crate) fn machine() -> Machine {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut unread = Vec::new();
    let abilities = abilities(&release, &mut unread);
    let resolution = clock_getres(ClockId::Monotonic);
    Machine {
        abilities,
        conntrack: conntrack(),
        timers: Timers {
            resolution_ns: (resolution.tv_sec as u64)
                .saturating_mul(1_000_000_000)
                .saturating_add(resolution.tv_nsec as u64),
            clocksource: word("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        },
        htb_hysteresis: number("/sys/module/sch_htb/parameters/htb_hysteresis")
            .map(|value| value != 0),
        minutes_west: minutes_west(),
        forwarding_v4: number("/proc/sys/net/ipv4/ip_forward").map(|value| value != 0),
        forwarding_v6: number("/proc/sys/net/ipv6/conf/all/forwarding").map(|value| value != 0),
        managers: processes(),
        unread,
        release,
        ..Machine::default()
    }
}

/// Returns the folder of a device in sysfs. sysfs shows the devices of the namespace in which it
/// was mounted, so the index is compared.
fn folder(name: &DeviceName, index: u32) -> Option<PathBuf> {
    let folder = Path::new("/sys/class/net").join(name.as_str());
    (number(folder.join("ifindex")) == Some(u64::from(index))).then_some(folder)
}

/// Returns the folders of its transmit queues.
fn sending(folder: &Path) -> Vec<PathBuf> {
    let queues = fs::read_dir(folder.join("queues")).into_iter().flatten();
    let paths = queues.flatten().map(|entry| entry.path());
    let sends = |path: &PathBuf| {
        let name = path.file_name();
        name.is_some_and(|name| name.to_string_lossy().starts_with("tx-"))
    };
    paths.filter(sends).collect()
}

/// Returns how many transmit queues a device has, and what chooses among them.
pub(crate) fn sending_queues(name: &DeviceName, index: u32) -> SendingQueues {
    let queues = folder(name, index).map_or_else(Vec::new, |folder| sending(&folder));
    // These files have masks of processors and of queues, in groups of eight digits.
    let any = |path: PathBuf| {
        let mask = fs::read_to_string(path).unwrap_or_default();
        mask.bytes()
            .any(|byte| matches!(byte, b'1'..=b'9' | b'a'..=b'f'))
    };
    let masks = queues
        .iter()
        .flat_map(|queue| ["xps_cpus", "xps_rxqs"].map(|file| queue.join(file)));
    SendingQueues {
        by_processor: masks.into_iter().any(any),
        count: u32::try_from(queues.len()).unwrap_or(u32::MAX).max(1),
    }
}

/// Returns whether a device lacks a transmit queue; `false` if sysfs does not show the device.
pub(crate) fn lacks_queue(name: &DeviceName, index: u32, queue: u32) -> bool {
    let folder = folder(name, index);
    folder.is_some_and(|folder| !folder.join(format!("queues/tx-{queue}")).exists())
}

/// Reads what only sysfs shows of a device.
pub(crate) fn device(name: &DeviceName, device: &mut Interface) {
    let Some(folder) = folder(name, device.index) else {
        return;
    };
    device.radio = is_radio(&folder);
    let at = |file: &str| number(folder.join(file));
    let sending = sending(&folder).into_iter();
    let limits: Vec<Option<u64>> = sending
        .map(|path| number(path.join("byte_queue_limits/limit")))
        .collect();
    // A limit stays 0 until the driver reports for the first time.
    device.bql = if limits.iter().flatten().any(|limit| *limit > 0) {
        Some(true)
    } else if limits.iter().all(Option::is_none) || at("statistics/tx_packets") >= Some(TRIED) {
        Some(false)
    } else {
        None
    };
}

/// Returns the kernel's time zone. The C library's gettimeofday(2) always says UTC (since glibc
/// 2.31), so the kernel is called directly.
fn minutes_west() -> i32 {
    let mut zone = [0_i32; 2];
    // SAFETY: the second argument is a `struct timezone`, two ints, which the call writes and does
    // not retain; the first is null.
    #[expect(unsafe_code, reason = "no crate asks for the kernel's time zone")]
    let done = unsafe {
        let none = std::ptr::null_mut::<libc::timeval>();
        libc::syscall(libc::SYS_gettimeofday, none, zone.as_mut_ptr())
    };
    if done == 0 { zone[0] } else { 0 }
}

fn conntrack() -> Option<Conntrack> {
    let at = |name: &str| number(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
    Some(Conntrack {
        accounting: at("acct")? != 0,
        count: u32::try_from(at("count")?).unwrap_or(u32::MAX),
        max: u32::try_from(at("max")?).unwrap_or(u32::MAX),
    })
}

/// Returns a kernel function that exists only with this ability; `None` if the ability is detected
/// in another way.
fn symbol(ability: Ability) -> Option<&'static str> {
    Some(match ability {
        Ability::Htb => "htb_enqueue",
        Ability::FqCodel => "fq_codel_enqueue",
        Ability::Sfq => "sfq_enqueue",
        Ability::Red => "red_enqueue",
        Ability::Cake => "cake_enqueue",
        Ability::Fq => "fq_enqueue",
        Ability::Ifb => "ifb_setup",
        Ability::NfTables => "nf_tables_newtable",
        Ability::NftForward => "nft_fwd_netdev_eval",
        Ability::NftLimit => "nft_limit_init",
        Ability::NftConnections => "nft_connlimit_eval",
        Ability::NftConntrack => "nft_ct_get_eval",
        Ability::FtpHelper => "try_eprt",
        Ability::Ctinfo => "tcf_ctinfo_act",
        Ability::ClsBpf => "cls_bpf_classify",
        Ability::BpfQdisc => "bpf_qdisc_skb_drop",
        Ability::Btf => return None,
    })
}

/// Returns whether a kernel has one ability.
pub(crate) fn presence(ability: Ability) -> Presence {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    Parts::of(&release).presence(ability)
}

fn abilities(release: &str, unread: &mut Vec<String>) -> BTreeMap<Ability, Presence> {
    let parts = Parts::of(release);
    if parts.functions().is_none() {
        unread.push("/proc/kallsyms: which parts the kernel has built in".to_owned());
    }
    if !parts.whole() {
        unread.push(format!(
            "/lib/modules/{release}: which modules the kernel could load"
        ));
    }
    Ability::ALL
        .into_iter()
        .map(|ability| (ability, parts.presence(ability)))
        .inserted()
}

/// The sources about a kernel's abilities. The list of modules shows what could be loaded; the
/// names of functions show what is present. The latter are read last, because the kernel prints
/// 150,000 or more of them.
struct Parts<'a> {
    release: &'a str,
    modules: OnceCell<Option<BTreeMap<String, bool>>>,
    functions: OnceCell<Option<BTreeSet<&'static str>>>,
}

impl<'a> Parts<'a> {
    const fn of(release: &'a str) -> Self {
        Self {
            release,
            modules: OnceCell::new(),
            functions: OnceCell::new(),
        }
    }

    fn modules(&self) -> Option<&BTreeMap<String, bool>> {
        self.modules.get_or_init(|| modules(self.release)).as_ref()
    }

    /// Returns the functions that indicate abilities; `None` if the kernel does not show them.
    fn functions(&self) -> Option<&BTreeSet<&'static str>> {
        let read = || {
            let wanted = Ability::ALL.into_iter().filter_map(symbol).inserted();
            Some(present(&fs::read("/proc/kallsyms").ok()?, &wanted))
        };
        self.functions.get_or_init(read).as_ref()
    }

    /// Returns whether all modules are known: a container may not see those that its kernel would
    /// load.
    fn whole(&self) -> bool {
        self.modules().is_some() || !Path::new("/proc/modules").exists()
    }

    fn presence(&self, ability: Ability) -> Presence {
        let Some(symbol) = symbol(ability) else {
            return if Path::new("/sys/kernel/btf/vmlinux").exists() {
                Presence::Here
            } else {
                Presence::Absent
            };
        };
        let module = ability.module();
        if module.is_some_and(|name| Path::new("/sys/module").join(name).exists()) {
            return Presence::Here;
        }
        let listed = module.and_then(|name| self.modules()?.get(name));
        if let Some(built_in) = listed {
            return match built_in {
                true => Presence::Here,
                false => Presence::Loadable,
            };
        }
        match self.functions() {
            Some(functions) if functions.contains(symbol) => Presence::Here,
            Some(_) if module.is_none() || self.whole() => Presence::Absent,
            _ => Presence::Unknown,
        }
    }
}

/// Returns those of `wanted` that are in a listing of symbols. The compiler may have added a suffix
/// after a dot.
fn present<'a>(listing: &[u8], wanted: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    listing
        .split(|b| *b == b'\n')
        .filter_map(|line| line.split(|b| *b == b' ' || *b == b'\t').nth(2))
        .filter_map(|name| std::str::from_utf8(name.split(|b| *b == b'.').next()?).ok())
        .filter_map(|name| wanted.get(name).copied())
        .inserted()
}

/// Returns the kernel's modules and whether each is built in; `None` if there is no list.
fn modules(release: &str) -> Option<BTreeMap<String, bool>> {
    let folder = ["/lib/modules", "/usr/lib/modules"]
        .map(|root| Path::new(root).join(release))
        .into_iter()
        .find(|folder| folder.join("modules.dep").exists())?;
    let mut modules = BTreeMap::new();
    for (file, built_in) in [("modules.dep", false), ("modules.builtin", true)] {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        modules.extend(text.lines().filter_map(|line| {
            let path = line.split(':').next()?;
            let name = path.rsplit('/').next()?.split('.').next()?;
            Some((name.replace('-', "_"), built_in))
        }));
    }
    Some(modules)
}

/// Returns whether a device is a radio, and its driver, both from sysfs.
pub(crate) fn hardware(name: &DeviceName, index: u32) -> (bool, Option<String>) {
    let folder = Path::new("/sys/class/net").join(name.as_str());
    if number(folder.join("ifindex")) != Some(u64::from(index)) {
        return (false, None);
    }
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    (is_radio(&folder), driver)
}

/// Returns whether the device of a folder is a radio, by mac80211 or by an older driver.
fn is_radio(folder: &Path) -> bool {
    let entries = ["phy80211", "wireless"];
    entries.iter().any(|entry| folder.join(entry).exists())
}

/// Returns the devices of `/proc/net/pppoe` (`pppoe_seq_show()`, drivers/net/ppp/pppoe.c).
pub(crate) fn sessions() -> BTreeSet<DeviceName> {
    let listed = fs::read_to_string("/proc/net/pppoe").unwrap_or_default();
    carrying(&listed)
}

/// Returns the third word of each line below the heading.
fn carrying(listed: &str) -> BTreeSet<DeviceName> {
    let lines = listed.lines().skip(1);
    lines
        .filter_map(|line| DeviceName::new(line.split_whitespace().nth(2)?))
        .inserted()
}

/// Returns whether the legacy interface of iptables has a table `nat`; `None` if that may not be
/// read.
pub(crate) fn older_nat() -> Option<bool> {
    match fs::read_to_string("/proc/net/ip_tables_names") {
        Ok(names) => Some(names.lines().any(|name| name == "nat")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// Returns the names of the running processes.
fn processes() -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter_map(|entry| word(entry.path().join("comm")))
        .inserted()
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    word(path)?.parse().ok()
}

fn word(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read_with_the_device_that_carries_them() {
        let listed = "Id       Address              Device\n\
                      00010001 02:00:00:00:00:02     eth0.7\nshort\n";
        let found: Vec<DeviceName> = carrying(listed).into_iter().collect();
        assert_eq!(found, [DeviceName::new("eth0.7").unwrap()]);
        assert_eq!(carrying(""), BTreeSet::new());
    }

    #[test]
    fn functions_are_found_with_and_without_an_ending() {
        let listing = b"0000 T htb_enqueue\n0000 t nft_ct_get_eval.cold\n\
            0000 t fq_enqueue_other\n0000 t cake_enqueue\t[sch_cake]\nshort\n";
        let wanted = BTreeSet::from([
            "htb_enqueue",
            "nft_ct_get_eval",
            "fq_enqueue",
            "cake_enqueue",
        ]);
        let found: Vec<&str> = present(listing, &wanted).into_iter().collect();
        assert_eq!(found, ["cake_enqueue", "htb_enqueue", "nft_ct_get_eval"]);
    }
}
