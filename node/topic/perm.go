package topic

// Perm is a set of permission bits of a topic or a broker, with the numbers of the stock broker.
type Perm int32

// The permission bits.
const (
	PermInherit  Perm = 1 // other topics may be created after this one
	PermWrite    Perm = 2
	PermRead     Perm = 4
	PermPriority Perm = 8
)

// Inherits tells whether other topics may be created after one with p.
func (p Perm) Inherits() bool { return p&PermInherit != 0 }

// Writable tells whether p lets clients send.
func (p Perm) Writable() bool { return p&PermWrite != 0 }

// Readable tells whether p lets clients pull.
func (p Perm) Readable() bool { return p&PermRead != 0 }

// Priority tells whether p has the priority bit.
func (p Perm) Priority() bool { return p&PermPriority != 0 }

// Accessible tells whether p lets clients do anything.
func (p Perm) Accessible() bool { return p&(PermRead|PermWrite) != 0 }

// Valid tells whether p may be given to a topic: 0 to 7. The priority bit is the broker's own.
func (p Perm) Valid() bool { return p >= 0 && p < PermPriority }

// String is the stock form: R, W and X (inherit), or a dash in their place.
func (p Perm) String() string {
	text := []byte("---")
	if p.Readable() {
		text[0] = 'R'
	}
	if p.Writable() {
		text[1] = 'W'
	}
	if p.Inherits() {
		text[2] = 'X'
	}
	return string(text)
}
