// A chart that stays one node of the page: what an input changes is drawn into it.
const server = document.querySelector('script[src*="/static/js/"]').src
const fetched = tries => new Promise((done, failed) => {
  const script = document.createElement("script")
  script.src = new URL(`../../${PLOTLY}`, server)
  script.onload = done
  script.onerror = () => failed(Error(`${script.src} was not answered`))
  document.head.append(script)
}).catch(error => tries
  ? new Promise(later => setTimeout(later, 1000)).then(() => fetched(tries - 1))
  : Promise.reject(error))
const library = () => (window.plotlyFetched ??= fetched(5)
  .catch(error => { window.plotlyFetched = null; throw error }))

export default async function ({ data, parentElement, setTriggerValue }) {
  if (!data) { library(); return }
  const { figure, alt, config, clicks } = data
  let chart = parentElement.querySelector("[role=figure]")
  if (!chart) {
    chart = parentElement.appendChild(document.createElement("div"))
    chart.role = "figure"
  }
  const { data: traces, layout } = JSON.parse(figure)
  chart.ariaLabel = alt
  chart.style.height = `${layout.height}px`
  const turn = chart.turn = (chart.turn ?? 0) + 1
  await library()
  if (turn !== chart.turn) return // a later call draws newer data
  await Plotly.react(chart, traces, layout, config)
  if (chart.watched) return
  chart.watched = true
  if (clicks) chart.on("plotly_click", ({ points: [point] }) => {
    if (point.customdata !== undefined) setTriggerValue("clicked", point.customdata)
  })
  // No clean-up is returned: Streamlit would run that of an early call after a later one has drawn.
  const fit = new ResizeObserver(() => {
    if (chart.offsetWidth) Plotly.Plots.resize(chart)
    if (chart.isConnected) return
    fit.disconnect()
    Plotly.purge(chart)
  })
  fit.observe(chart)
}
