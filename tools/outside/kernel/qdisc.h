/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets, queueing disciplines and netlink, reduced to what the kernel's
 * disciplines need.
 */
#ifndef OUTSIDE_QDISC_H
#define OUTSIDE_QDISC_H

#include "linux.h"

/* A packet, and the code point of its ECN field. */
struct sk_buff {
	struct sk_buff *next, *prev;
	u32 len, truesize, hash, priority;
	u32 id;
	u8 ecn;
	void *end;
	char cb[48] __attribute__((aligned(8)));
};

struct sk_buff_head {
	struct sk_buff *first;
};

static inline u32 skb_get_hash(struct sk_buff *skb)
{
	return skb->hash;
}

static inline bool is_skb_wmem(const struct sk_buff *skb)
{
	return false;
}

static inline void skb_mark_not_on_list(struct sk_buff *skb)
{
	skb->next = NULL;
}

static inline int skb_get_dsfield(struct sk_buff *skb)
{
	return skb->ecn;
}

/* RFC 3168: only ECN-capable packets can be marked. */
static inline int INET_ECN_set_ce(struct sk_buff *skb)
{
	if (!skb->ecn)
		return 0;
	skb->ecn = 3;
	return 1;
}

/* include/net/sch_generic.h and gen_stats.h */
enum qdisc_drop_reason {
	QDISC_DROP_UNSPEC,
	QDISC_DROP_OVERLIMIT,
	QDISC_DROP_CONGESTED,
};

struct qdisc_skb_head {
	struct sk_buff *head, *tail;
	u32 qlen;
};

struct net_device_ops;

struct net_device {
	u32 mtu;
	const struct net_device_ops *netdev_ops;
};

struct net_device_ops {
	int (*ndo_setup_tc)(struct net_device *dev, int type, void *data);
};

struct gnet_stats_queue {
	u32 qlen, backlog, drops, requeues, overlimits;
};

struct gnet_stats_basic_sync {
	u64 bytes, packets;
};

struct Qdisc_ops;
struct nlattr;
struct gnet_dump;
struct tcf_block;
struct tcf_proto;
struct netlink_ext_ack;

struct tcmsg {
	u32 tcm_handle, tcm_info;
};

struct Qdisc {
	const struct Qdisc_ops *ops;
	struct net_device *dev;
	u32 limit, flags, handle, parent;
	struct qdisc_skb_head q;
	struct sk_buff_head gso_skb;
	struct gnet_stats_queue qstats;
	struct gnet_stats_basic_sync bstats;
	void *private;
};

struct qdisc_walker {
	int stop, skip, count;
	int (*fn)(struct Qdisc *sch, unsigned long cl, struct qdisc_walker *w);
};

struct Qdisc_class_ops {
	int (*graft)(struct Qdisc *sch, unsigned long cl, struct Qdisc *child,
		     struct Qdisc **old, struct netlink_ext_ack *extack);
	struct Qdisc *(*leaf)(struct Qdisc *sch, unsigned long cl);
	unsigned long (*find)(struct Qdisc *sch, u32 classid);
	void (*walk)(struct Qdisc *sch, struct qdisc_walker *walker);
	struct tcf_block *(*tcf_block)(struct Qdisc *sch, unsigned long cl,
				       struct netlink_ext_ack *extack);
	unsigned long (*bind_tcf)(struct Qdisc *sch, unsigned long parent,
				  u32 classid);
	void (*unbind_tcf)(struct Qdisc *sch, unsigned long cl);
	int (*dump)(struct Qdisc *sch, unsigned long cl, struct sk_buff *skb,
		    struct tcmsg *tcm);
	int (*dump_stats)(struct Qdisc *sch, unsigned long cl,
			  struct gnet_dump *dump);
};

struct Qdisc_ops {
	const struct Qdisc_class_ops *cl_ops;
	char id[16];
	int priv_size;
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch,
		       struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	struct sk_buff *(*peek)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt,
		    struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	int (*change)(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack);
	int (*dump)(struct Qdisc *sch, struct sk_buff *skb);
	int (*dump_stats)(struct Qdisc *sch, struct gnet_dump *dump);
	void *owner;
};

#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define NET_XMIT_CN 2
#define __NET_XMIT_STOLEN 0x10000
#define __NET_XMIT_BYPASS 0x20000
#define TCQ_F_CAN_BYPASS 4
#define TCQ_F_DEQUEUE_DROPS 0x400
#define TCQ_F_OFFLOADED 0x200
#define TC_H_MAJ(handle) ((handle) & 0xffff0000U)
#define TC_H_MIN(handle) ((handle) & 0xffffU)

static inline void *qdisc_priv(struct Qdisc *sch)
{
	return sch->private;
}

static inline struct net_device *qdisc_dev(const struct Qdisc *sch)
{
	return sch->dev;
}

static inline u32 psched_mtu(const struct net_device *dev)
{
	return dev->mtu;
}

static inline u32 qdisc_qlen(const struct Qdisc *sch)
{
	return sch->q.qlen;
}

static inline u32 qdisc_pkt_len(const struct sk_buff *skb)
{
	return skb->len;
}

struct qdisc_skb_cb {
	u32 pkt_len;
	u16 pkt_segs;
	unsigned char data[32] __attribute__((aligned(8)));
};

static inline struct qdisc_skb_cb *qdisc_skb_cb(const struct sk_buff *skb)
{
	return (struct qdisc_skb_cb *)skb->cb;
}

#define qdisc_cb_private_validate(skb, size) ((void)(skb))
#define sch_tree_lock(sch) ((void)(sch))
#define sch_tree_unlock(sch) ((void)(sch))
#define qdisc_lock(sch) (sch)
#define qdisc_root_sleeping(sch) (sch)
#define tcf_set_qdisc_drop_reason(skb, reason) ((void)(skb))
#define qdisc_tree_reduce_backlog(sch, packets, bytes) ((void)(bytes))

/* Handles a dropped packet. */
void drop_packet(struct sk_buff *skb);

static inline void qdisc_qstats_drop(struct Qdisc *sch)
{
	sch->qstats.drops++;
}

static inline void __qdisc_qstats_drop(struct Qdisc *sch, int count)
{
	sch->qstats.drops += count;
}

static inline void qdisc_qstats_overlimit(struct Qdisc *sch)
{
	sch->qstats.overlimits++;
}

static inline void qstats_backlog_sub(struct Qdisc *sch, u32 bytes)
{
	sch->qstats.backlog -= bytes;
}

static inline void qstats_backlog_add(struct Qdisc *sch, u32 bytes)
{
	sch->qstats.backlog += bytes;
}

static inline void qdisc_qstats_backlog_inc(struct Qdisc *sch,
					    const struct sk_buff *skb)
{
	sch->qstats.backlog += qdisc_pkt_len(skb);
}

static inline void qdisc_qstats_backlog_dec(struct Qdisc *sch,
					    const struct sk_buff *skb)
{
	sch->qstats.backlog -= qdisc_pkt_len(skb);
}

static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}

static inline void qdisc_bstats_update(struct Qdisc *sch,
				       const struct sk_buff *skb)
{
	sch->bstats.bytes += qdisc_pkt_len(skb);
	sch->bstats.packets++;
}

static inline int qdisc_enqueue_tail(struct sk_buff *skb, struct Qdisc *sch)
{
	skb->next = NULL;
	if (sch->q.tail)
		sch->q.tail->next = skb;
	else
		sch->q.head = skb;
	sch->q.tail = skb;
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	return NET_XMIT_SUCCESS;
}

static inline struct sk_buff *__qdisc_dequeue_head(struct qdisc_skb_head *q)
{
	struct sk_buff *skb = q->head;

	if (skb) {
		q->head = skb->next;
		q->qlen--;
		if (!q->head)
			q->tail = NULL;
		skb->next = NULL;
	}
	return skb;
}

static inline struct sk_buff *qdisc_dequeue_head(struct Qdisc *sch)
{
	struct sk_buff *skb = __qdisc_dequeue_head(&sch->q);

	if (skb) {
		qdisc_qstats_backlog_dec(sch, skb);
		qdisc_bstats_update(sch, skb);
	}
	return skb;
}

static inline void qdisc_dequeue_drop(struct Qdisc *sch, struct sk_buff *skb,
				      enum qdisc_drop_reason reason)
{
	drop_packet(skb);
}

static inline void __qdisc_drop(struct sk_buff *skb, struct sk_buff **to_free)
{
	drop_packet(skb);
}

static inline int qdisc_drop_reason(struct sk_buff *skb, struct Qdisc *sch,
				    struct sk_buff **to_free,
				    enum qdisc_drop_reason reason)
{
	drop_packet(skb);
	qdisc_qstats_drop(sch);
	return NET_XMIT_DROP;
}

static inline void rtnl_kfree_skbs(struct sk_buff *head, struct sk_buff *tail)
{
	while (head) {
		struct sk_buff *next = head->next;

		drop_packet(head);
		head = next;
	}
}

static inline void rtnl_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch)
{
	skb->next = NULL;
	rtnl_kfree_skbs(skb, skb);
	qdisc_qstats_drop(sch);
}

static inline void qdisc_reset_queue(struct Qdisc *sch)
{
	rtnl_kfree_skbs(sch->q.head, sch->q.tail);
	memset(&sch->q, 0, sizeof(sch->q));
	sch->qstats.backlog = 0;
}

/* Not called, but referenced by the kernel's files. */
static inline struct sk_buff *skb_peek(struct sk_buff_head *list)
{
	return list->first;
}

static inline void __skb_queue_head(struct sk_buff_head *list,
				    struct sk_buff *skb)
{
	list->first = skb;
}

static inline struct sk_buff *qdisc_peek_dequeued(struct Qdisc *sch)
{
	return NULL;
}

static inline struct sk_buff *qdisc_dequeue_internal(struct Qdisc *sch,
						     bool direct)
{
	return sch->ops->dequeue(sch);
}

static inline struct sk_buff *qdisc_dequeue_peeked(struct Qdisc *sch)
{
	return sch->ops->dequeue(sch);
}

static inline int qdisc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
				struct sk_buff **to_free)
{
	return sch->ops->enqueue(skb, sch, to_free);
}

#define net_xmit_drop_count(result) ((result) == NET_XMIT_DROP)
#define register_qdisc(ops) ((void)(ops), 0)
#define unregister_qdisc(ops) ((void)(ops))

struct nla_policy {
	int type, len;
	u32 bits;
	int strict_start_type;
};

struct nla_bitfield32 {
	u32 value, selector;
};

enum { NLA_U8, NLA_U32, NLA_BITFIELD32 };

#define NLA_POLICY_BITFIELD32(supported) \
	{ .type = NLA_BITFIELD32, .bits = supported }
#define nla_parse_nested_deprecated(tb, most, opt, policy, extack) \
	((void)(tb), (void)(policy), -EOPNOTSUPP)
#define nla_get_u8(attribute) ((u8)0)
#define nla_get_u32(attribute) ((u32)0)
#define nla_get_u32_default(attribute, otherwise) (otherwise)
#define nla_get_bitfield32(attribute) ((struct nla_bitfield32){ 0, 0 })
#define nla_data(attribute) ((void *)(attribute))
#define nla_put(skb, type, size, data) ((void)(data), 0)
#define nla_put_u8(skb, type, value) ((void)(value), 0)
#define nla_put_u32(skb, type, value) ((void)(value), 0)
#define nla_put_bitfield32(skb, type, value, selector) ((void)(value), 0)
#define nla_nest_start_noflag(skb, type) ((struct nlattr *)NULL)
#define nla_nest_end(skb, nest) 0
#define nla_nest_cancel(skb, nest) ((void)(nest))
#define gnet_stats_copy_app(dump, data, size) ((void)(data), 0)
#define gnet_stats_copy_queue(dump, cpu, data, length) ((void)(data), 0)
#define NL_SET_ERR_MSG(extack, text) ((void)(extack))
#define NL_SET_ERR_MSG_MOD(extack, text) ((void)(extack))
#define tcf_block_get(block, list, sch, extack) ((void)(extack), 0)
#define tcf_block_put(block) ((void)(block))

struct tcf_result {
	u32 classid;
};

#define tcf_classify_qdisc(skb, filter, result, compat) \
	((void)(filter), (result)->classid = 0, -1)

#endif
