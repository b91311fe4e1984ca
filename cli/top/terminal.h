// The terminal while a program has all of it: keys come one by one and unseen, and what was on the
// screen comes back at the end, also when a signal ends the process.
//
// Plain ANSI sequences and termios. Thread-compatible; one at a time in a process.
#ifndef CLI_TOP_TERMINAL_H_
#define CLI_TOP_TERMINAL_H_

#include <termios.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

class Terminal {
 public:
  struct Size {
    int width = 80;
    int height = 24;
  };

  // Takes over the terminal that `in` and `out` are; both stay open. FailedPrecondition if they are
  // none.
  static absl::StatusOr<std::unique_ptr<Terminal>> Open(int in, int out);
  // Gives it back.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;

  // Shows the lines in place of what is there. False: the terminal is gone.
  bool Draw(const std::vector<std::string>& lines);

  struct Input {
    std::string bytes;
    bool gone = false;  // The terminal is.
  };
  // Waits for keys, for Wake, for a change of size, or for the time.
  Input Wait(absl::Duration duration);

  // Ends Wait, or the next one. From any thread.
  void Wake();

  // Gives the terminal back, stops the process as Ctrl-Z does, and takes it over again after.
  void Suspend();

 private:
  Terminal(int in, int out, int wake_in, int wake_out, const termios& before);
  void Take();
  void GiveBack();
  // False: the terminal is gone.
  bool Write(const std::string& text);
  bool Read(std::string* bytes);

  const int in_;
  const int out_;
  const int wake_in_;   // Of a pipe: what is read here,
  const int wake_out_;  // was written there.
  const termios before_;
};

}  // namespace paceline

#endif  // CLI_TOP_TERMINAL_H_
