// Included by ProcessGroupGloo.hpp, which uses nothing of it.
#ifndef GLOO_STUB_ALGORITHM_H_
#define GLOO_STUB_ALGORITHM_H_
#endif  // GLOO_STUB_ALGORITHM_H_
