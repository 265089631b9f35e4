// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a state that can be applied while some of its devices are missing.

use std::collections::BTreeSet;
use weirgate_state::{Chain, DeviceName, Hook, State, Table};
use weirgate_units::Inserted as _;

/// Returns the part of a state that can be applied with these devices of other programs. If a
/// device is missing, the tables and chains that are only for it are left out, and an IFB to which
/// nothing would be redirected.
pub fn present(state: &State, devices: &BTreeSet<DeviceName>) -> State {
    let is_ifb = |name: &DeviceName| state.devices.get(name).is_some_and(|one| one.owned_ifb);
    let carried = |table: &&Table| {
        let mut own = table.devices().filter(|name| !is_ifb(name)).peekable();
        own.peek().is_none() || own.any(|name| devices.contains(name))
    };
    // Most kernels refuse a chain at a device that does not exist (`nft_netdev_hook_alloc`,
    // net/netfilter/nf_tables_api.c).
    let hooked = |chain: &Chain| match &chain.hook {
        Hook::Ingress { device, .. } | Hook::Egress { device } => {
            is_ifb(device) || devices.contains(device)
        }
        _ => true,
    };
    let mut tables: Vec<Table> = state.tables.iter().filter(carried).cloned().collect();
    for table in &mut tables {
        table.chains.retain(hooked);
    }
    let redirected = |tables: &[Table], name: &DeviceName| {
        let mut chains = tables.iter().flat_map(|table| &table.chains);
        chains.any(
            |chain| matches!(&chain.hook, Hook::Ingress { redirect_to, .. } if redirect_to == name),
        )
    };
    State {
        devices: state
            .devices
            .iter()
            .filter(|(name, device)| {
                if device.owned_ifb {
                    redirected(&tables, name) || !redirected(&state.tables, name)
                } else {
                    devices.contains(name)
                }
            })
            .map(|(name, device)| (name.clone(), device.clone()))
            .inserted(),
        tables,
        hooks: state
            .hooks
            .iter()
            .filter(|(name, _)| devices.contains(*name))
            .map(|(name, hooks)| (name.clone(), hooks.clone()))
            .inserted(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_state::{Device, Origin, Shared};

    fn name(text: &str) -> DeviceName {
        DeviceName::new(text).unwrap()
    }

    fn state() -> State {
        let device = |owned_ifb| Device {
            owned_ifb,
            offloads: None,
            root: None,
            origin: Origin::default(),
        };
        let table = |netdev, hook| {
            let chain = Chain {
                name: "one".to_owned(),
                hook,
                rules: Shared::default(),
            };
            Table {
                netdev,
                name: "weirgate".to_owned(),
                chains: vec![chain],
                ..Table::default()
            }
        };
        State {
            devices: [
                (name("wan"), device(false)),
                (name("lan"), device(false)),
                (name("ifb-wan"), device(true)),
            ]
            .into(),
            tables: vec![
                table(
                    false,
                    Hook::Postrouting {
                        device: name("wan"),
                    },
                ),
                table(
                    true,
                    Hook::Ingress {
                        device: name("wan"),
                        redirect_to: name("ifb-wan"),
                    },
                ),
            ],
            ..State::default()
        }
    }

    #[test]
    fn a_missing_device_takes_along_what_hangs_on_it() {
        let left = present(&state(), &[name("lan")].into());
        assert_eq!(left.devices.keys().collect::<Vec<_>>(), [&name("lan")]);
        assert_eq!(left.tables, []);
        let left = present(&state(), &[name("wan")].into());
        assert_eq!(left.devices.len(), 2);
        assert_eq!(left.tables.len(), 2);
        let all = [name("wan"), name("lan"), name("other")].into();
        assert_eq!(present(&state(), &all), state());
    }

    #[test]
    fn a_bridge_with_one_port_has_the_chain_of_that_port() {
        let mut bridge = state();
        let chain = |device: &str| Chain {
            name: device.to_owned(),
            hook: Hook::Egress {
                device: name(device),
            },
            rules: Shared::default(),
        };
        bridge.tables[1].chains = vec![chain("wan"), chain("lan")];
        let left = present(&bridge, &[name("lan")].into());
        assert_eq!(left.tables.len(), 1);
        assert_eq!(left.tables[0].chains, [chain("lan")]);
        let all = [name("wan"), name("lan")].into();
        assert_eq!(present(&bridge, &all).tables, bridge.tables);
    }
}
