// As base.h.
