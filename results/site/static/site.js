// The page works without this. It saves a reader some scrolling: the form sets the address, and the
// address shows the answer (:target); folded evidence opens where a link leads to it.
(function () {
  "use strict";

  function choice(text) {
    var found = {};
    text.replace(/^[#?]/, "").split("&").forEach(function (part) {
      var at = part.indexOf("=");
      if (at > 0) {
        try { found[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1)); } catch (e) { /* not ours */ }
      }
    });
    return found;
  }

  function has(select, value) {
    return Array.prototype.some.call(select.options, function (o) { return o.value === value; });
  }

  var form = document.getElementById("affected");
  if (form) {
    var torch = form.elements.namedItem("torch");
    var device = form.elements.namedItem("device");
    var said = document.getElementById("affected-said");
    var page = form.getAttribute("data-page");
    var here = !page || location.pathname.slice(-page.length) === page;

    var address = function () {
      return "torch=" + encodeURIComponent(torch.value).replace(/%2B/g, "+") + "&device=" + device.value;
    };
    var go = function () {
      if (here) { location.hash = address(); } else { location.href = page + "#" + address(); }
    };
    var tell = function () {
      var shown = document.getElementById(address());
      if (!location.hash || !has(torch, torch.value)) { return; }
      said.textContent = shown
        ? "Shown: torch " + torch.value + " on " + device.value + ". The address of this page now leads here."
        : "torch " + torch.value + " was not run on " + device.value + ".";
    };
    var read = function () {
      var wanted = choice(location.hash);
      if (!wanted.torch) { wanted = choice(location.search); }
      if (!wanted.torch) { return; }
      var release = wanted.torch.trim().replace(/\+.*$/, "");
      if (!has(torch, wanted.torch)) {
        if (has(torch, release)) { wanted.torch = release; }
        else if (has(torch, release + ".0")) { wanted.torch = release + ".0"; }
        else {
          document.getElementById("answers").classList.add("nothing");
          said.textContent = "No record of torch " + release + ". The newest that was run is " + torch.options[0].value + ".";
          return;
        }
      }
      document.getElementById("answers").classList.remove("nothing");
      torch.value = wanted.torch;
      if (wanted.device && has(device, wanted.device)) { device.value = wanted.device; }
      if (here && location.hash.slice(1) !== address()) { location.replace("#" + address()); }
      tell();
    };

    form.hidden = false;
    document.documentElement.className += " js";
    var first = document.querySelector(".answer.default");
    if (first) {
      var start = choice(first.id);
      if (has(torch, start.torch)) { torch.value = start.torch; }
      if (has(device, start.device)) { device.value = start.device; }
    }
    form.addEventListener("submit", function (event) { event.preventDefault(); go(); });
    torch.addEventListener("change", go);
    device.addEventListener("change", go);
    window.addEventListener("hashchange", read);
    read();
  }

  function open() {
    var id = location.hash.slice(1);
    if (!id) { return; }
    var target = document.getElementById(id);
    if (!target) { try { target = document.getElementById(decodeURIComponent(id)); } catch (e) { return; } }
    if (!target || !target.classList.contains("cell")) { return; }
    Array.prototype.forEach.call(target.querySelectorAll("details"), function (d) { d.open = true; });
  }
  window.addEventListener("hashchange", open);
  open();
})();
