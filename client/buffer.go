package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/store/engine"
)

// buffer holds a request or response body. A request's buffer is shared with
// the transport, which may go on reading it after the attempt has failed, so it
// goes back to the pool only when the last user has released it.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

// maxPooled is the capacity above which a buffer is not kept.
const maxPooled = 4 << 20

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4096)} }}

// newBuffer returns an empty buffer with one reference.
func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.b = b.b[:0]
	b.refs.Store(1)
	return b
}

func (b *buffer) retain() { b.refs.Add(1) }

func (b *buffer) release() {
	if b.refs.Add(-1) == 0 && cap(b.b) <= maxPooled {
		buffers.Put(b)
	}
}

// readFrom reads r to its end. It fails with engine.ErrTooLarge beyond limit
// bytes. The hint is the expected size, or negative.
func (b *buffer) readFrom(r io.Reader, hint, limit int64) error {
	if hint > limit {
		return fmt.Errorf("answer of %d bytes: %w", hint, engine.ErrTooLarge)
	}
	if hint >= 0 && int64(cap(b.b)) < hint+1 {
		// One more than needed, so that the end is seen without growing.
		b.b = make([]byte, 0, hint+1)
	}
	for {
		if len(b.b) == cap(b.b) {
			b.b = append(b.b, 0)[:len(b.b)]
		}
		n, err := r.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if int64(len(b.b)) > limit {
			return fmt.Errorf("answer of more than %d bytes: %w", limit, engine.ErrTooLarge)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// requestBody is the body of one attempt. It says whether the transport has
// taken all of it.
type requestBody struct {
	mu    sync.Mutex // the transport may close while it reads
	r     bytes.Reader
	buf   *buffer // nil once closed
	taken bool
}

func newRequestBody(buf *buffer) *requestBody {
	buf.retain()
	rb := &requestBody{buf: buf}
	rb.r.Reset(buf.b)
	return rb
}

func (rb *requestBody) Read(p []byte) (int, error) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.buf == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := rb.r.Read(p)
	if rb.r.Len() == 0 {
		rb.taken = true
	}
	return n, err
}

func (rb *requestBody) Close() error {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.buf != nil {
		rb.buf.release()
		rb.buf = nil
		rb.r.Reset(nil)
	}
	return nil
}

// complete reports whether the transport has taken the whole body.
func (rb *requestBody) complete() bool {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	return rb.taken
}
