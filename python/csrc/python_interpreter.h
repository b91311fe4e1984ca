// The Python of a script, for profiles of its steps.
#ifndef PYTHON_CSRC_PYTHON_INTERPRETER_H_
#define PYTHON_CSRC_PYTHON_INTERPRETER_H_

#include <functional>
#include <string>

#include "worker/trainer/telemetry/profiler.h"

namespace paceline {

// Thread-compatible. Call everything without the GIL, which each call takes.
class PythonInterpreter : public Interpreter {
 public:
  // What problem() of python/paceline/profiling.py says. Throws c10::ValueError if that raises.
  std::string WhyNotTraced() override;
  void Do(const std::function<void()>& part) override;
};

}  // namespace paceline

#endif  // PYTHON_CSRC_PYTHON_INTERPRETER_H_
