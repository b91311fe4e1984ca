// Assertions of fuzz targets that must hold for every input.
#ifndef TESTS_FUZZ_EXPECT_H_
#define TESTS_FUZZ_EXPECT_H_

#include <cstdio>
#include <cstdlib>

#define PACELINE_EXPECT(condition)                                                 \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

#endif  // TESTS_FUZZ_EXPECT_H_
