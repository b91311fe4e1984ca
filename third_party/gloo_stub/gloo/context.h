// Contexts live inside libtorch_cpu; ProcessGroupGloo::setTimeout calls this one method.
#ifndef GLOO_STUB_CONTEXT_H_
#define GLOO_STUB_CONTEXT_H_

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo

#endif  // GLOO_STUB_CONTEXT_H_
