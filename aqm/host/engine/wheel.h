/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's wheel: nodes by the tick for which they wait, so that putting one
 * in, taking it out and finding the first cost the same however many there are.
 *
 * A node never comes out before its time. What waits beyond the wheel's last tick
 * comes out there, and is put back. A host that is asked late gets the nodes of
 * all ticks meanwhile in the order of their times.
 */
#ifndef AQM_ENGINE_WHEEL_H
#define AQM_ENGINE_WHEEL_H

#include "engine.h"

/* The lowest bit that is set, of sixteen that are not all 0: alone it is a power of
 * two, times which a de Bruijn number has another place for each in its upper bits
 * (Leiserson, Prokop and Randall 1998). */
AQM_FN u32 engine_lowest16(u32 word)
{
	u32 alone = word & (0 - word);

	return (u32)(0xcd7ea84fb6935210ULL >> ((alone * 0x9af >> 10) & 60)) &
	       15;
}

/* The same of a word of 64. */
AQM_FN u64 engine_lowest(u64 word)
{
	u32 at = 0;

	if (!(u32)word) {
		word >>= 32;
		at = 32;
	}
	if (!(word & 0xffff)) {
		word >>= 16;
		at += 16;
	}
	return at + engine_lowest16((u32)word & 0xffff);
}

/* Takes a node out of the wheel, if it is there. */
AQM_FN int engine_wheel_remove(struct engine *e, u32 id)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_wheel *w = &e->wheel;
	struct engine_node *next, *prev;
	u32 place;

	if (!n || !n->wheel)
		return 0;
	place = AQM_MASKED(n->wheel - 1, ENGINE_TICKS - 1);
	n->wheel = 0;
	if (n->wheel_next != id) {
		next = engine_node(e, n->wheel_next);
		prev = engine_node(e, n->wheel_prev);
		if (next)
			next->wheel_prev = n->wheel_prev;
		if (prev)
			prev->wheel_next = n->wheel_next;
		if (w->bucket[place] == id)
			w->bucket[place] = n->wheel_next;
		return 1;
	}
	/* `due` may be too early now, which costs a look. */
	w->bucket[place] = 0;
	w->low[place >> 6] &= ~(1ULL << (place & 63));
	if (w->low[place >> 6])
		return 1;
	w->middle[place >> 12] &= ~(1ULL << ((place >> 6) & 63));
	if (!w->middle[place >> 12])
		w->top &= ~(1ULL << (place >> 12));
	return 1;
}

/* Has a node wait until `at_ns`, and for nothing else. */
AQM_WHOLE_FN int engine_wheel_put(struct engine *e AQM_NONNULL, u32 id,
				  u64 at_ns)
{
	struct engine_node *n = engine_node(e, id);
	u64 tick = (at_ns >> ENGINE_TICK_SHIFT) + 1;
	struct engine_wheel *w = &e->wheel;
	struct engine_node *head, *last;
	u32 place;

	engine_wheel_remove(e, id);
	if (!n)
		return 0;
	if (tick < w->tick)
		tick = w->tick;
	if (tick > w->tick + ENGINE_TICKS - 1)
		tick = w->tick + ENGINE_TICKS - 1;
	if (tick < w->due)
		w->due = tick;
	place = AQM_MASKED((u32)tick, ENGINE_TICKS - 1);
	n->wheel = place + 1;
	n->wheel_next = id;
	n->wheel_prev = id;
	head = engine_node(e, w->bucket[place]);
	if (head) {
		last = engine_node(e, head->wheel_prev);
		n->wheel_next = w->bucket[place];
		n->wheel_prev = head->wheel_prev;
		if (last)
			last->wheel_next = id;
		head->wheel_prev = id;
		return 0;
	}
	w->bucket[place] = id;
	w->low[place >> 6] |= 1ULL << (place & 63);
	w->middle[place >> 12] |= 1ULL << ((place >> 6) & 63);
	w->top |= 1ULL << (place >> 12);
	return 0;
}

/*
 * Has a node that has just been put into the wheel come out before another, where
 * that waits for the same tick. Without that it comes out last of its tick.
 */
AQM_FN int engine_wheel_before(struct engine *e, u32 id, u32 other)
{
	struct engine_node *n = engine_node(e, id);
	struct engine_node *o = engine_node(e, other);
	struct engine_node *next, *prev;
	u32 place;

	if (!n || !o || id == other || !n->wheel || n->wheel != o->wheel)
		return 0;
	next = engine_node(e, n->wheel_next);
	prev = engine_node(e, n->wheel_prev);
	if (next)
		next->wheel_prev = n->wheel_prev;
	if (prev)
		prev->wheel_next = n->wheel_next;
	prev = engine_node(e, o->wheel_prev);
	n->wheel_next = other;
	n->wheel_prev = o->wheel_prev;
	if (prev)
		prev->wheel_next = id;
	o->wheel_prev = id;
	place = AQM_MASKED(n->wheel - 1, ENGINE_TICKS - 1);
	if (e->wheel.bucket[place] == other)
		e->wheel.bucket[place] = id;
	return 1;
}

/* The bits of a word above one; none for the last. */
AQM_FN u64 engine_above(u64 word, u32 bit)
{
	return word & (~1ULL << (bit & 63));
}

/* The place of the first tick that has nodes, from the wheel's on; ENGINE_TICKS
 * where none has. */
AQM_FN u32 engine_wheel_first(struct engine *e AQM_NONNULL)
{
	struct engine_wheel *w = &e->wheel;
	u32 from = AQM_MASKED((u32)w->tick, ENGINE_TICKS - 1);
	u32 high = from >> 12, middle = from >> 6, at;
	u64 word;

	word = w->low[middle] >> (from & 63);
	if (word)
		return (middle << 6) + (from & 63) + (u32)engine_lowest(word);
	word = engine_above(w->middle[high], middle & 63);
	if (word) {
		at = high << 6 | AQM_MASKED((u32)engine_lowest(word), 63);
		return at << 6 | AQM_MASKED((u32)engine_lowest(w->low[at]), 63);
	}
	/* Then the other parts of the wheel, and last what comes round again. */
	word = engine_above(w->top, high);
	if (!word)
		word = w->top;
	if (!word)
		return ENGINE_TICKS;
	high = AQM_MASKED((u32)engine_lowest(word), 63);
	at = high << 6 | AQM_MASKED((u32)engine_lowest(w->middle[high]), 63);
	return at << 6 | AQM_MASKED((u32)engine_lowest(w->low[at]), 63);
}

/* The first node whose tick has come, out of the wheel; 0 where there is none. Then
 * `due` is when there will be. */
AQM_FN u32 engine_wheel_due(struct engine *e AQM_NONNULL, u64 now_ns)
{
	u64 now = now_ns >> ENGINE_TICK_SHIFT;
	struct engine_wheel *w = &e->wheel;
	u32 place = engine_wheel_first(e);
	u64 tick;
	u32 id;

	if (place >= ENGINE_TICKS) {
		w->tick = now;
		w->due = ~0ULL;
		return 0;
	}
	tick = w->tick + ((place - (u32)w->tick) & (ENGINE_TICKS - 1));
	w->due = tick;
	if (tick > now) {
		if (now > w->tick)
			w->tick = now;
		return 0;
	}
	w->tick = tick;
	id = w->bucket[AQM_MASKED(place, ENGINE_TICKS - 1)];
	engine_wheel_remove(e, id);
	return id;
}

#endif
