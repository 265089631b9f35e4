// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The size table equals the model for every layer, kind of device and length; and the model has
//! the properties that others rely on.

use proptest::prelude::*;
use weirgate_linklayer::{DeviceKind, EXACT_UP_TO, Framing, KernelCase, LinkLayer, kernel_cases};
use weirgate_state::Stab;

/// The largest IP packet without a jumbo option.
const LONGEST: u32 = 65_535;

/// `__qdisc_calculate_pkt_len` of net/sched/sch_api.c in its own arithmetic
/// (C `int`, `u16` slots), from the values that netlink carries. Independent
/// of `Stab::charge`, so that a mistake there shows here.
fn kernel_charges(case: &KernelCase, ip_len: u32) -> i32 {
    let stab = case.stab();
    let mut length = case.device_length(ip_len) as i32 + stab.overhead;
    if !stab.data.is_empty() {
        let mut slot = length + i32::from(stab.cell_align);
        if slot < 0 {
            slot = 0;
        }
        slot >>= stab.cell_log;
        let tsize = stab.data.len() as i32;
        let at = |n: i32| i32::from(stab.data[n as usize]);
        length = if slot < tsize {
            at(slot)
        } else {
            at(tsize - 1) * (slot / tsize) + at(slot % tsize)
        };
        length <<= stab.size_log;
    }
    length.max(1)
}

#[test]
fn every_layer_on_every_device_is_exact() {
    assert_eq!(
        kernel_cases().count(),
        LinkLayer::names().count() * DeviceKind::ALL.len()
    );
    for case in kernel_cases() {
        let stab = case.stab();
        for ip_len in 0..=EXACT_UP_TO {
            let charged = stab.charge(case.device_length(ip_len));
            assert_eq!(charged, case.expected(ip_len), "{case:?} {ip_len}");
        }
    }
    const { assert!(EXACT_UP_TO >= 2_047, "the least that the model promises") };
}

#[test]
fn state_and_kernel_do_the_same_sum() {
    for case in kernel_cases() {
        let stab = case.stab();
        for ip_len in (0..2_300).chain((2_300..=LONGEST).step_by(97)) {
            let charged = stab.charge(case.device_length(ip_len));
            assert_eq!(
                charged as i32,
                kernel_charges(&case, ip_len),
                "{case:?} {ip_len}"
            );
        }
    }
}

/// Checks lengths beyond the table: never undercharged, and overcharged by at most what `table.rs`
/// states.
fn check_beyond(case: &KernelCase, lengths: impl Iterator<Item = u32>) -> Result<(), String> {
    let stab = case.stab();
    let slots = stab.data.len() as u32;
    let plain = |bytes| LinkLayer::custom(0, 0, case.layer.framing()).map(|l| l.wire_bytes(bytes));
    let once = plain(case.layer.overhead().unsigned_abs().max(1)).map_err(|e| e.to_string())?;
    let minimum = plain(case.layer.mpu().max(1)).map_err(|e| e.to_string())?;
    for ip_len in lengths {
        let charged = stab.charge(case.device_length(ip_len));
        let exact = case.expected(ip_len);
        if charged < exact {
            return Err(format!(
                "{case:?}: {ip_len} bytes are charged {charged} of {exact}"
            ));
        }
        let most = exact + ip_len.div_ceil(slots) * once + minimum;
        if charged > most {
            return Err(format!(
                "{case:?}: {ip_len} bytes are charged {charged}, over {most}"
            ));
        }
    }
    Ok(())
}

#[test]
fn longer_packets_are_never_charged_less() {
    for case in kernel_cases() {
        check_beyond(&case, EXACT_UP_TO..=LONGEST).expect("never under");
    }
}

#[test]
fn a_table_fits_the_kernel_and_netlink() {
    for case in kernel_cases() {
        let stab = case.stab();
        assert!(stab.data.len() * 2 < 65_535 - 64, "one netlink attribute");
        assert_eq!((stab.cell_log, stab.size_log, stab.cell_align), (0, 0, 0));
        assert_eq!(stab.overhead, -(case.device.counted() as i32));
        assert_eq!(stab.mtu, EXACT_UP_TO);
        assert!(stab.data.iter().all(|slot| (1..u16::MAX).contains(slot)));
    }
}

/// The table that tc-stab(8) computes (`tc_calc_size_table` of iproute2: 512
/// slots of 4 bytes, each sized by its upper end) charges cells as ours does,
/// and up to 3 bytes more than ours where there is a minimum and no cells.
#[test]
fn tables_of_tc_itself() {
    for case in kernel_cases() {
        let (overhead, mpu, framing) = case.tc_arguments();
        let cells = match framing {
            Framing::Atm => true,
            Framing::None if mpu > 0 => false,
            // tc has no PTM; without a minimum it sends no table at all.
            Framing::None | Framing::Ptm => continue,
        };
        let slot = |upper: u32| {
            let size = upper.max(mpu);
            if cells { size.div_ceil(48) * 53 } else { size }
        };
        let tc = Stab {
            overhead,
            cell_align: -1,
            cell_log: 2,
            size_log: 0,
            mpu,
            mtu: 2_047,
            data: (1..=512).map(|i| slot(i << 2) as u16).collect(),
        };
        for ip_len in 1..=1_500 {
            let more = tc.charge(case.device_length(ip_len)) - case.expected(ip_len);
            assert!(
                more <= if cells { 0 } else { 3 },
                "{case:?} {ip_len}: {more} more"
            );
        }
    }
}

/// `Stab::charge` follows the kernel's source for tables of others: no slots, slots past the end,
/// logarithms, nothing below 1.
#[test]
fn charges_of_other_tables() {
    let stab = |overhead, cell_align, cell_log, size_log, data: &[u16]| Stab {
        overhead,
        cell_align,
        cell_log,
        size_log,
        mpu: 0,
        mtu: 0,
        data: data.to_vec(),
    };
    let none = stab(-14, 0, 0, 3, &[]);
    assert_eq!(
        (none.charge(1_514), none.charge(14), none.charge(0)),
        (1_500, 1, 1)
    );
    // Slots of 16 bytes, each twice its value: 0-15, 16-31, 32-47.
    let three = stab(0, 0, 4, 1, &[10, 20, 30]);
    assert_eq!([0, 15, 16, 47].map(|n| three.charge(n)), [20, 20, 40, 60]);
    // Slot 7 of 3 slots: the last one twice, then slot 1.
    assert_eq!(three.charge(7 * 16), 2 * (2 * 30 + 20));
    assert_eq!(
        stab(0, -1, 4, 0, &[10, 20]).charge(0),
        10,
        "never before the first slot"
    );
    // The kernel's `int` would wrap here; this stays at the largest value.
    assert_eq!(
        stab(i32::MIN, i16::MIN, 0, 0, &[0, 7]).charge(u32::MAX),
        u32::MAX
    );
    assert_eq!(stab(0, 0, 0, 0, &[0]).charge(0), 1);
    assert_eq!(stab(0, 0, 255, 255, &[u16::MAX]).charge(1), u32::MAX);
}

/// A device that counts 14 bytes and one that counts none charge the same for a packet. The theses'
/// patches could not distinguish the two.
#[test]
fn the_device_does_not_change_the_cost() {
    for layer in LinkLayer::all() {
        let charges: Vec<u32> = DeviceKind::ALL
            .into_iter()
            .map(|device| layer.stab(device).charge(1_500 + device.counted()))
            .collect();
        assert!(
            charges.iter().all(|c| *c == layer.wire_bytes(1_500)),
            "{layer}: {charges:?}"
        );
    }
    let case = KernelCase {
        layer: LinkLayer::named("adsl:pppoa-vc").expect("a name"),
        device: DeviceKind::Ethernet,
    };
    assert_eq!(case.tc_arguments(), (-4, 0, Framing::Atm));
}

fn any_layer() -> impl Strategy<Value = LinkLayer> {
    let framing = prop_oneof![Just(Framing::None), Just(Framing::Atm), Just(Framing::Ptm)];
    (LinkLayer::OVERHEAD, LinkLayer::MPU, framing).prop_map(|(overhead, mpu, framing)| {
        LinkLayer::custom(overhead, mpu, framing).expect("both within their ranges")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layer_by_hand_is_exact_and_never_under(layer in any_layer(), kind in 0usize..7) {
        let case = KernelCase { layer, device: DeviceKind::ALL[kind] };
        let stab = case.stab();
        for ip_len in 0..=EXACT_UP_TO {
            prop_assert_eq!(stab.charge(case.device_length(ip_len)), case.expected(ip_len));
        }
        let beyond = check_beyond(&case, EXACT_UP_TO..=LONGEST);
        prop_assert!(beyond.is_ok(), "{:?}", beyond);
    }

    #[test]
    fn cost_grows_with_length_and_obeys_its_framing(layer in any_layer(), ip_len in 0u32..100_000) {
        let wire = layer.wire_bytes(ip_len);
        prop_assert!(wire <= layer.wire_bytes(ip_len + 1));
        prop_assert!(i64::from(wire) >= i64::from(ip_len) + i64::from(layer.overhead()));
        prop_assert!(wire >= layer.mpu().max(1));
        let frame = u64::from(layer.mpu().max(1)).max(
            u64::try_from(i64::from(ip_len) + i64::from(layer.overhead())).unwrap_or(0),
        );
        match layer.framing() {
            Framing::None => prop_assert_eq!(u64::from(wire), frame),
            Framing::Atm => {
                prop_assert_eq!(wire % 53, 0);
                let room = u64::from(wire / 53) * 48;
                prop_assert!(frame <= room && room < frame + 48);
            }
            // Never below 65/64, and above it by less than a byte.
            Framing::Ptm => {
                let exact_64ths = frame * 65;
                let charged_64ths = u64::from(wire) * 64;
                prop_assert!(charged_64ths >= exact_64ths && charged_64ths < exact_64ths + 64);
            }
        }
        let carried = i64::from(ip_len) + i64::from(layer.overhead()) + i64::from(layer.padding(ip_len));
        let frame_on_wire = match layer.framing() {
            Framing::Atm => i64::from(wire) / 53 * 48,
            Framing::None | Framing::Ptm => frame as i64,
        };
        prop_assert_eq!(carried, frame_on_wire);
    }

    #[test]
    fn a_stated_overhead_means_the_same_on_every_device(layer in any_layer(), kind in 0usize..7) {
        let device = DeviceKind::ALL[kind];
        let (overhead, mpu, framing) = KernelCase { layer, device }.tc_arguments();
        prop_assert_eq!(LinkLayer::relative_to_device(overhead, mpu, framing, device), Ok(layer));
    }

    #[test]
    fn no_name_makes_the_parser_panic(name in "\\PC{0,30}") {
        if let Err(error) = LinkLayer::named(&name) {
            prop_assert!(!error.near.is_empty());
            prop_assert!(error.to_string().contains("is not a link layer"));
        }
    }
}
