package store

import "sync"

// bufferPool keeps byte slices for encoding. Slices that grew beyond a megabyte
// are let go, so that one large execution does not hold memory for ever.
type bufferPool struct{ pool sync.Pool }

var encodeBuffers bufferPool

func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 2048)
	return &b
}

func (p *bufferPool) put(b *[]byte) {
	if cap(*b) <= 1<<20 {
		p.pool.Put(b)
	}
}
