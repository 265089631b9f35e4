// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's dualpi2. */
#include "main.h"

#define U32_MAX UINT32_MAX
#define INET_ECN_NOT_ECT 0
#define INET_ECN_MASK 3
#define QDISC_DROP_L4S_STEP_NON_ECN QDISC_DROP_CONGESTED
#define TC_H_MAKE(major, minor) (TC_H_MAJ(major) | TC_H_MIN(minor))
#define WARN_ON_ONCE(x) ((void)(x))
#define mul_u32_u32(a, b) ((u64)(a) * (b))
#define upper_32_bits(x) ((u32)((x) >> 32))
#define lower_32_bits(x) ((u32)(x))

/* Packets have no headers here: the code point is read directly. */
#define ETH_P_IP 1
#define ETH_P_IPV6 2
#define htons(x) (x)
#define skb_protocol(skb, skip_vlan) ETH_P_IP
#define skb_network_offset(skb) 0
#define pskb_may_pull(skb, length) true
#define skb_try_make_writable(skb, length) 0
#define ip_hdr(skb) (skb)
#define ipv6_hdr(skb) (skb)
#define ipv4_get_dsfield(skb) ((skb)->ecn)
#define ipv6_get_dsfield(skb) ((skb)->ecn)

struct iphdr {
	u8 bytes[20];
};

struct ipv6hdr {
	u8 bytes[40];
};

/* Merged packets do not occur. */
typedef u64 netdev_features_t;
#define NETIF_F_GSO_MASK 0
#define skb_is_gso(skb) false
#define netif_skb_features(skb) 0
#define skb_gso_segment(skb, features) \
	((void)(features), (struct sk_buff *)NULL)
#define IS_ERR_OR_NULL(pointer) (!(pointer))
#define skb_list_walk_safe(first, skb, after) \
	for ((skb) = (first); (skb) && ((after) = (skb)->next, 1); \
	     (skb) = (after))
#define consume_skb(skb) ((void)(skb))
#define qdisc_drop(skb, sch, to_free) \
	qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_UNSPEC)

static struct Qdisc_ops pfifo_qdisc_ops = {
	.id = "pfifo",
	.enqueue = NULL,
};

#define dev_queue dev
#define qdisc_create_dflt(dev, ops, handle, extack) new_qdisc(ops, dev)
#define qdisc_put(child) (free((child)->private), free(child))
#define qdisc_peek_head(sch) ((sch)->q.head)

struct netlink_range_validation {
	u64 min, max;
};

#define NLA_POLICY_FULL_RANGE(kind, range) { .type = kind }
#define NLA_POLICY_RANGE(kind, least, most) { .type = kind }
#define NLA_POLICY_MIN(kind, least) { .type = kind }
#define NLA_POLICY_MAX(kind, most) { .type = kind }
#define nla_len(attribute) 0
#define nla_parse_nested(tb, most, opt, policy, extack) \
	((void)(tb), (void)(policy), -EOPNOTSUPP)
#define tc_qdisc_stats_dump(sch, cl, walker) ((void)(walker), true)

#include "net/sched/sch_dualpi2.c"

static void start(struct Qdisc *sch)
{
	struct dualpi2_sched_data *q = qdisc_priv(sch);

	dualpi2_init(sch, NULL, NULL);
	sch->limit = (u32)argument("limit_packets");
	q->pi2_target = argument("target_ns");
	q->pi2_tupdate = (u32)argument("update_ns");
	q->pi2_alpha = dualpi2_scale_alpha_beta((u32)argument("alpha"));
	q->pi2_beta = dualpi2_scale_alpha_beta((u32)argument("beta"));
	q->coupling_factor = (u8)argument("coupling");
	q->step_thresh = (u32)argument("step_ns");
	q->drop_overload = argument("drop_overload");
	dualpi2_calculate_c_protection(sch, q,
				       (u32)argument("classic_percent"));
	/* As the timers of the other disciplines: half a second from now. */
	hrtimer_start(&q->pi2_timer, now_ns + NSEC_PER_SEC / 2,
		      HRTIMER_MODE_ABS_PINNED_SOFT);
}

int main(int count, char **values)
{
	return decide(&dualpi2_qdisc_ops, count, values);
}
