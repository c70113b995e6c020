//! Which addresses belong to the public internet. Everything else leads home, or nowhere.
//!
//! From IANA's special-purpose registries (read 2026-11-30): what is not globally reachable there is not public here.
//! An IPv6 address that carries an IPv4 one (mapped, NAT64, 6to4) is as public as the address that it carries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges that are not public, with the length of their prefix.
const V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),      // this network; 0.0.0.0 reaches loopback
    (Ipv4Addr::new(10, 0, 0, 0), 8),     // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),  // shared by carriers (CGNAT); clouds keep their own services there
    (Ipv4Addr::new(127, 0, 0, 0), 8),    // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local; clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),  // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),   // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),   // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),  // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(168, 63, 129, 16), 32), // Azure's platform: a public number that is answered by the host itself
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, and broadcast
];

const MAPPED: (Ipv6Addr, u32) = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
/// All that is given out as globally reachable. Loopback, link-local, unique local, site-local, multicast, the
/// IPv4-compatible and the local NAT64 forms lie outside.
const GLOBAL: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// Within it, and not reachable: protocol assignments with Teredo, whose addresses carry an IPv4 one in disguise, and
/// documentation.
const V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !V4.iter().any(|range| within_v4(address, *range)),
        IpAddr::V6(address) if within_v6(address, MAPPED) || within_v6(address, NAT64) => {
            is_public(carried(address, 0).into())
        }
        IpAddr::V6(address) if within_v6(address, SIX_TO_FOUR) => is_public(carried(address, 80).into()),
        IpAddr::V6(address) => within_v6(address, GLOBAL) && !V6.iter().any(|range| within_v6(address, *range)),
    }
}

/// The IPv4 address that ends `bits` before the end.
fn carried(address: Ipv6Addr, bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits((address.to_bits() >> bits) as u32)
}

fn within_v4(address: Ipv4Addr, (start, length): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ start.to_bits()) >> (32 - length) == 0
}

fn within_v6(address: Ipv6Addr, (start, length): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ start.to_bits()) >> (128 - length) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_home_or_nowhere_is_not_public() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "168.63.129.16",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "ff0e::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "::10.0.0.1",
            "::8.8.8.8",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:101::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:db8::1",
            "3fff::1",
            "4000::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_the_internet_reaches_is_public() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.0.1",
            "192.169.0.1",
            "198.17.0.1",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001:81b::200e",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
