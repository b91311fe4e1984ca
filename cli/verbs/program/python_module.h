// Verbs that a module of Paceline's Python package implements: this starts Python with it.
#ifndef CLI_VERBS_PROGRAM_PYTHON_MODULE_H_
#define CLI_VERBS_PROGRAM_PYTHON_MODULE_H_

#include <string>
#include <vector>

#include "cli/verbs/program/verb_parts.h"

namespace paceline {

// Calls `run()` of paceline.<module>.__main__ in the active environment's Python, with these
// arguments, our streams and --output, and waits for its end. Returns the exit code, which is that
// of `verb`. Ctrl-C is Python's.
int RunPythonVerb(Program& program, const std::string& verb, const std::string& module,
                  const std::vector<std::string>& arguments);

}  // namespace paceline

#endif  // CLI_VERBS_PROGRAM_PYTHON_MODULE_H_
