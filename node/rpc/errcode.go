package rpc

import (
	"errors"

	"ringmq/netio/wire"
	"ringmq/node/lock"
	"ringmq/store"
	"ringmq/store/record"
)

// codeOf maps the classes of errors from the layers below to answers.
func codeOf(err error) wire.Code {
	switch {
	case err == nil:
		return wire.Success
	case errors.Is(err, store.ErrBusy), errors.Is(err, lock.ErrFull):
		return wire.SystemBusy // load, not damage: stock producers try another queue
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrUncut), errors.Is(err, store.ErrClosed):
		return wire.ServiceNotAvailable
	case errors.Is(err, record.ErrTopicTooLong), errors.Is(err, record.ErrPropsTooLong):
		return wire.MessageIllegal
	}
	return wire.SystemError
}
