"""The benchmark: this library, a hand-written floor and other libraries on the same work, side by side."""
