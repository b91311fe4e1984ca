// Chromium without a screen, driven by the test through chromedriver (the WebDriver protocol).
//
// Thread-compatible.
#ifndef TESTS_PAGE_BROWSER_H_
#define TESTS_PAGE_BROWSER_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/process.h"

namespace paceline {

class Browser {
 public:
  // The test fails at once when there is no browser.
  Browser();
  ~Browser();

  void Open(const std::string& url);
  // The value of the JavaScript expression in the page.
  nlohmann::json Value(const std::string& expression);
  // Waits until the expression is true; fails the test after a minute, with the value of `shown`.
  void WaitUntil(const std::string& expression, const std::string& shown = "document.title");
  // Text of the first element that matches the selector.
  std::string Text(const std::string& selector);
  void Click(const std::string& selector);
  // Presses a key on the focused element; special keys as in WebDriver ("\uE014": right).
  void Press(const std::string& key);
  void SetSize(int width, int height);
  // Lays the page out as in a window of this size, however small, until SetSize.
  void SetViewport(int width, int height);
  // What axe-core objects to in the page by the rules of WCAG 2.1 A and AA: a line for each rule,
  // with the elements. Empty: nothing.
  std::string AccessibilityTroubles();
  void SetDark(bool dark);
  // Saves the whole page, however long, as PNG.
  void Picture(const std::string& path);

 private:
  nlohmann::json Command(const std::string& path, const nlohmann::json& body);

  const std::string directory_;  // Of its own, with its log; removed at the end.
  std::unique_ptr<Process> driver_;
  std::string address_;
  std::string session_;
};

}  // namespace paceline

#endif  // TESTS_PAGE_BROWSER_H_
