package uring

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVecKeepsTheOrder(t *testing.T) {
	out, in := socketPair(t)
	pieces := [][]byte{[]byte("one"), nil, []byte("two"), {}, []byte("three")}
	var v Vec
	for range 2 { // a Vec is used again and again
		for _, p := range pieces {
			if !v.Add(p) {
				t.Fatal("no place for five pieces")
			}
		}
		if v.Bytes() != 11 {
			t.Fatalf("Bytes() = %d, want 11", v.Bytes())
		}
		if n, err := v.Send(out, true); n != 11 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		got := make([]byte, 100)
		n, err := unix.Read(in, got)
		if err != nil || string(got[:n]) != "onetwothree" {
			t.Fatalf("received %q, %v", got[:n], err)
		}
	}
}

func TestVecTakesPartWhenFull(t *testing.T) {
	out, in := socketPair(t)
	want := pattern(vecMax << 12)
	var v Vec
	for i := range vecMax {
		if !v.Add(want[i<<12 : (i+1)<<12]) {
			t.Fatalf("no place for piece %d", i)
		}
	}
	if v.Add(want) {
		t.Fatal("a piece too many was taken")
	}
	sent, err := v.Send(out, false)
	if err != nil || sent <= 0 || sent >= len(want) {
		t.Fatalf("Send = %d, %v; want a part", sent, err)
	}
	v.Add(want[sent:])
	if n, err := v.Send(out, false); n != 0 || err != unix.EAGAIN {
		t.Fatalf("Send to a full socket = %d, %v", n, err)
	}
	got := make([]byte, 0, len(want))
	for len(got) < sent {
		n, err := unix.Read(in, got[len(got):cap(got)])
		if err != nil {
			t.Fatal(err)
		}
		got = got[:len(got)+n]
	}
	if !bytes.Equal(got, want[:sent]) {
		t.Fatal("the bytes that arrived are not those that Send counted")
	}
}

func TestVecAllocatesNothing(t *testing.T) {
	out, in := socketPair(t)
	v, b := new(Vec), []byte("abc")
	sink := make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		v.Add(b)
		v.Add(b)
		v.Send(out, false)
		unix.Read(in, sink)
	}); n != 0 {
		t.Fatalf("%v allocations per send", n)
	}
}
