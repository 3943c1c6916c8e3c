package sample

import "fmt"

const Limit = 10

type Row interface {
	Read(part int) (string, error)
}

type Shelf[T any] struct {
	size int
	rows []T
}

type (
	Name string
	Pair struct {
		First int
	}
)

func (s *Shelf[T]) Read(part int) (string, error) {
	inner := func() int {
		return 1
	}
	return fmt.Sprint(inner()), nil
}

func Load(path string, flags ...string) error {
	return nil
}

func hidden() {}
