package relayd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestAnswersLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox()
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error)
		go func() {
			for {
				if err := o.put(ctx, make([]byte, maxWaiting/8)); err != nil {
					refused <- err
					return
				}
			}
		}()
		synctest.Wait()
		for range 4 {
			if !o.offer(make([]byte, maxWaiting/8)) {
				t.Fatal("stored events make a client too slow for live ones")
			}
		}
		if o.offer([]byte("x")) {
			t.Error("more waits than there is room for")
		}
		cancel()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
