// Included by ProcessGroupGloo.hpp, which uses nothing of it.
#ifndef GLOO_STUB_COMMON_ERROR_H_
#define GLOO_STUB_COMMON_ERROR_H_
#endif  // GLOO_STUB_COMMON_ERROR_H_
